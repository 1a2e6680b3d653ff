"""The model: a vLLM client and conversations that are token in, token out.

`VllmClient` talks to a server, `detect` finds out what it can do, `Conversation` is what the agent
loop uses. Failures are a `ModelError` each (infrastructure, never a score), except `ContextLimit`,
which is a natural end.
"""

from episode_operator.model.calls import MalformedCall, ToolCall
from episode_operator.model.capabilities import Capabilities, detect, require_unchanged
from episode_operator.model.client import Message, ServedModel, VllmClient
from episode_operator.model.conversation import Conversation
from episode_operator.model.errors import (
    ContextLengthExceeded,
    ContextLimit,
    ModelBadRequest,
    ModelBadResponse,
    ModelChanged,
    ModelError,
    ModelNotFound,
    ModelOverloaded,
    ModelTimeout,
    ModelUnauthorized,
    ModelUnavailable,
    RawLogprobs,
    RenderMismatch,
    ScaleOutDisabled,
    Stale,
    TeacherMismatch,
    WeightsUnlabeled,
)
from episode_operator.model.parsing import Reader, ToolForm
from episode_operator.model.sampling import SamplingConfig
from episode_operator.model.scores import Scores
from episode_operator.model.scoring import Scorer, ScoringCapabilities, detect_scoring
from episode_operator.model.special import SpecialTokens
from episode_operator.model.tokens import TokenBuffer, TokenRow, TopTokens
from episode_operator.model.turn import SampledTurn
from episode_operator.model.versions import WeightVersions
from episode_operator.model.waiting import Waiting
from episode_operator.model.wire import VersionSpan

__all__ = [
    "Capabilities",
    "ContextLengthExceeded",
    "ContextLimit",
    "Conversation",
    "MalformedCall",
    "Message",
    "ModelBadRequest",
    "ModelBadResponse",
    "ModelChanged",
    "ModelError",
    "ModelNotFound",
    "ModelOverloaded",
    "ModelTimeout",
    "ModelUnauthorized",
    "ModelUnavailable",
    "RawLogprobs",
    "Reader",
    "RenderMismatch",
    "SampledTurn",
    "SamplingConfig",
    "ScaleOutDisabled",
    "Scorer",
    "Scores",
    "ScoringCapabilities",
    "ServedModel",
    "SpecialTokens",
    "Stale",
    "TeacherMismatch",
    "TokenBuffer",
    "TokenRow",
    "ToolCall",
    "ToolForm",
    "TopTokens",
    "VersionSpan",
    "VllmClient",
    "Waiting",
    "WeightVersions",
    "WeightsUnlabeled",
    "detect",
    "detect_scoring",
    "require_unchanged",
]
