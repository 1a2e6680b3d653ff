"""The model: a vLLM client and conversations that are token in, token out.

`VllmClient` talks to a server, `detect` finds out what it can do, `Conversation` is what the agent
loop uses. Failures are a `ModelError` each (infrastructure, never a score), except `ContextLimit`,
which is a natural end.
"""

from episode_operator.model.capabilities import Capabilities, detect
from episode_operator.model.client import Message, ServedModel, VllmClient
from episode_operator.model.conversation import Conversation
from episode_operator.model.errors import (
    ContextLengthExceeded,
    ContextLimit,
    ModelBadRequest,
    ModelBadResponse,
    ModelError,
    ModelNotFound,
    ModelOverloaded,
    ModelTimeout,
    ModelUnauthorized,
    ModelUnavailable,
    RawLogprobs,
    RenderMismatch,
    ScaleOutDisabled,
)
from episode_operator.model.hermes import MalformedCall, ToolCall
from episode_operator.model.parsing import ToolForm
from episode_operator.model.sampling import SamplingConfig
from episode_operator.model.special import SpecialTokens
from episode_operator.model.tokens import TokenBuffer, TokenRow
from episode_operator.model.turn import SampledTurn
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
    "ModelError",
    "ModelNotFound",
    "ModelOverloaded",
    "ModelTimeout",
    "ModelUnauthorized",
    "ModelUnavailable",
    "RawLogprobs",
    "RenderMismatch",
    "SampledTurn",
    "SamplingConfig",
    "ScaleOutDisabled",
    "ServedModel",
    "SpecialTokens",
    "TokenBuffer",
    "TokenRow",
    "ToolCall",
    "ToolForm",
    "VersionSpan",
    "VllmClient",
    "detect",
]
