"""`spec.distillation` of an Episode; what came of it is in the status of its EpisodeResult."""

from enum import StrEnum

from pydantic import Field

from episode_operator.api.base import ApiModel, ContentSource, Endpoint, PositiveSeconds


class HintPlacement(StrEnum):
    """Where the teacher reads the hint of a turn."""

    LAST_USER_MESSAGE = "LastUserMessage"
    BEFORE_TURN = "BeforeTurn"


class TurnOutcome(StrEnum):
    """Why a turn was, or was not, scored by the teacher."""

    SCORED = "Scored"
    NO_NEXT_STATE = "NoNextState"
    JUDGE_DECLINED = "JudgeDeclined"
    JUDGE_FAILED = "JudgeFailed"
    TEACHER_FAILED = "TeacherFailed"
    OVER_BUDGET = "OverBudget"


class DistillationState(StrEnum):
    """How a distillation ended as a whole."""

    COMPLETED = "Completed"
    FAILED = "Failed"
    SKIPPED = "Skipped"


class Judge(ApiModel):
    """Who says, from what came after a turn, whether and how it could have been better."""

    endpoint: Endpoint | None = Field(
        default=None,
        description="Base URL, without /v1, of a server that speaks OpenAI's chat completions; "
        "the policy's when not set.",
    )
    name: str | None = Field(
        default=None,
        description="Name of the model there; the policy's when not set.",
        min_length=1,
        max_length=512,
    )
    api_key_from: ContentSource | None = Field(
        default=None, description="Where its API key is, if it needs one."
    )
    votes: int = Field(
        default=3, description="Independent judgements of a turn; the majority decides.", ge=1, le=9
    )
    temperature: float = Field(default=0.7, description="Its sampling temperature.", ge=0, le=2)
    max_tokens: int = Field(
        default=500, description="Most tokens of one judgement.", ge=16, le=32_768
    )
    next_state_limit: int = Field(
        default=4000,
        description="Characters it is shown of each message that came after a turn.",
        ge=100,
        le=100_000,
    )
    request_timeout_seconds: PositiveSeconds = Field(
        default=120, description="Time limit of one request to it, in seconds."
    )


class Teacher(ApiModel):
    """Who scores the sampled tokens; it must have the policy's vocabulary."""

    endpoint: Endpoint = Field(description="Base URL of its vLLM server, without /v1.")
    name: str = Field(description="Name the server serves it under.", min_length=1, max_length=512)
    request_timeout_seconds: PositiveSeconds = Field(
        default=600, description="Time limit of one request to it, in seconds."
    )


class Distillation(ApiModel):
    """On-policy distillation: a teacher that knows a hint scores the tokens of each turn.

    It runs after the verdict, when the pod is gone, and never changes the reward.
    """

    top_k: int = Field(
        default=50,
        description="Most likely tokens of the teacher kept per position.",
        ge=1,
        le=1000,
    )
    hint_placement: HintPlacement = Field(
        default=HintPlacement.LAST_USER_MESSAGE,
        description="LastUserMessage appends the hint to the last message of the user; BeforeTurn "
        "puts it right before the turn, so that the server's prefix cache serves what is before.",
    )
    student_top_k: bool = Field(
        default=False,
        description="Also score the policy's own most likely tokens, those of "
        "model.sampling.topLogprobs; needs a server with prompt_logprob_token_ids.",
    )
    judge: Judge = Field(default=Judge(), description="Who judges turns and writes hints.")
    teacher: Teacher | None = Field(
        default=None, description="Who scores them; the policy's own model when not set."
    )
    max_teacher_tokens: int = Field(
        default=1_000_000,
        description="Most tokens of the prompts for the teacher of one Episode, each prompt "
        "counted once; turns beyond are OverBudget.",
        ge=1,
        le=1_000_000_000,
    )
    timeout_seconds: PositiveSeconds = Field(
        default=1800,
        description="Time limit of the whole distillation, in seconds; turns not reached are "
        "OverBudget.",
    )
