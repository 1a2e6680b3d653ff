"""The EpisodeResult resource: what an Episode gave; it outlives the Episode."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import ConfigDict, Field

from episode_operator.api.agent import AgentKind, Sampling
from episode_operator.api.base import ApiModel, cel, validations
from episode_operator.api.distillation import DistillationState, HintPlacement
from episode_operator.api.episode import Group
from episode_operator.api.reasons import Verdict


class Delivery(StrEnum):
    """Where a result is on its way to the trainer; all members of a group are in one state."""

    PENDING = "Pending"
    SENDING = "Sending"
    DELIVERED = "Delivered"
    UNKNOWN = "Unknown"
    DROPPED = "Dropped"


class EpisodeReference(ApiModel):
    """The Episode a result is of."""

    name: str = Field(description="Name of the Episode.")
    uid: str = Field(description="Uid of the Episode.")


class Counts(ApiModel):
    """How much happened; every number is counted, none estimated."""

    turns: int = Field(default=0, description="Turns of the agent.", ge=0)
    tool_calls: int = Field(default=0, description="Tool calls run.", ge=0)
    tool_errors: int = Field(default=0, description="Tool calls answered with an error.", ge=0)
    malformed_calls: int = Field(
        default=0, description="Tool calls that could not be read, or were cut off.", ge=0
    )
    malformed_calls_by_kind: dict[str, int] = Field(
        default={}, description="The same by kind (docs/tokens.md); kinds without any are absent."
    )
    tokens: int = Field(default=0, description="Tokens in the training row.", ge=0)
    sampled_tokens: int = Field(default=0, description="Of these, sampled by the model.", ge=0)


class Timings(ApiModel):
    """Where the time went, in seconds."""

    sandbox_start_seconds: float = Field(default=0, description="Pod creation to running.", ge=0)
    setup_seconds: float = Field(default=0, description="Files and setup script.", ge=0)
    agent_seconds: float = Field(default=0, description="The agent loop as a whole.", ge=0)
    model_seconds: float = Field(default=0, description="Of it, waiting for the model.", ge=0)
    tool_seconds: float = Field(default=0, description="Of it, running tools.", ge=0)
    verifier_seconds: float = Field(default=0, description="The verifier.", ge=0)


class WeightSpan(ApiModel):
    """Row positions sampled by one version of the weights."""

    version: str = Field(description="Weight version as the server named it.")
    start: int = Field(description="First position in the row.", ge=0)
    end: int = Field(description="Position after the last.", ge=0)


class Blob(ApiModel):
    """Bytes stored inline, in numbered ConfigMaps or as an object; check sha256 after reading."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "[has(self.inline), has(self.parts), has(self.uri)].filter(x, x).size() == 1",
                "exactly one of inline, parts, uri must be set",
            )
        )
    )

    encoding: Literal["safetensors+zstd", "json+zstd", "tar+gzip"] = Field(
        description="How to decode it."
    )
    sha256: str = Field(description="Of the stored bytes, hex.", pattern=r"^[0-9a-f]{64}$")
    size: int = Field(description="Stored bytes.", ge=0)
    inline: str | None = Field(default=None, description="The bytes, base64.")
    parts: list[str] | None = Field(
        default=None,
        description="ConfigMaps whose binaryData.part hold the bytes, in order.",
        max_length=1024,
    )
    uri: str | None = Field(
        default=None,
        description="Object that holds the bytes, in the object store of the installation.",
        max_length=2048,
        pattern=r"^(file|s3)://",
    )


class StepResult(ApiModel):
    """How one step of a task in steps ended."""

    name: str = Field(description="Name of the step.")
    verdict: Verdict = Field(description="Passed, Failed or NoVerdict.")
    reason: str = Field(description="Why.")
    reward: float | None = Field(default=None, description="Its reward; absent without a verdict.")
    reward_components: dict[str, float] = Field(
        default={}, description="What the reward is made of, by the contract's names."
    )


class ModelReference(ApiModel):
    """Which model was sampled, and how: needed to use the logprobs."""

    name: str = Field(description="Name of the model.")
    logprobs_mode: Literal["processed", "raw"] = Field(
        description="Whether logprobs are of the processed or the raw distribution."
    )
    sampling: Sampling = Field(description="Sampling parameters.")


class EpisodeResultSpec(ApiModel):
    """The outcome; written once."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel("self == oldSelf", "an EpisodeResult is written once"),
            cel(
                "(self.verdict == 'NoVerdict') == !has(self.reward)",
                "reward must be set exactly when there is a verdict",
                field_path=".reward",
            ),
        )
    )

    episode: EpisodeReference = Field(description="The Episode this is the result of.")
    group: Group | None = Field(default=None, description="Its training group.")
    verdict: Verdict = Field(description="Passed, Failed or NoVerdict.")
    reason: str = Field(description="Why the Episode ended as it did.")
    message: str = Field(default="", description="Details.", max_length=32_768)
    reward: float | None = Field(
        default=None, description="The reward; absent when there is no verdict."
    )
    reward_components: dict[str, float] = Field(
        default={}, description="What the reward is made of, by the contract's names."
    )
    harness: str = Field(description="The contract that scored it: pytest, testScript or testCode.")
    steps: list[StepResult] = Field(
        default=[], description="The steps that were reached, in order.", max_length=32
    )
    agent_kind: AgentKind = Field(description="Who acted.")
    agent_end: str | None = Field(
        default=None, description="Why the agent stopped; absent when it did not get to an end."
    )
    image: str = Field(description="Image of the sandbox, as resolved by the node if known.")
    model: ModelReference | None = Field(default=None, description="The model sampled from.")
    counts: Counts = Field(default=Counts(), description="Turns, calls and tokens.")
    timings: Timings = Field(default=Timings(), description="Seconds by part.")
    weight_versions: list[WeightSpan] = Field(
        default=[], description="Which weights sampled which positions.", max_length=4096
    )
    tokens: Blob | None = Field(
        default=None,
        description="The training row (docs/payload.md); absent for agents that sample nothing.",
    )
    messages: Blob | None = Field(default=None, description="The conversation, as a JSON list.")
    artifacts: Blob | None = Field(
        default=None, description="What `artifacts` asked for and was there, as a gzipped tar."
    )
    artifacts_missing: dict[str, str] = Field(
        default={}, description="Paths of `artifacts` that were not kept, and why."
    )
    verifier_output: str = Field(
        default="", description="The end of the verifier's output.", max_length=16_384
    )
    pod_uid: str | None = Field(default=None, description="Uid of the pod that was verified.")
    started_at: datetime = Field(description="When the Episode started.")
    finished_at: datetime = Field(description="When the verdict was known.")


class DistillationStatus(ApiModel):
    """What came of it, and where the numbers are (docs/distillation.md)."""

    model_config = ConfigDict(extra="ignore")

    state: DistillationState = Field(
        description="Completed: each turn has its outcome. Failed: as a whole. Skipped: there was "
        "nothing to do."
    )
    message: str = Field(default="", description="Details.", max_length=32_768)
    outcomes: dict[str, int] = Field(
        default={},
        description="Number of turns by outcome: Scored, NoNextState, JudgeDeclined, "
        "JudgeFailed, TeacherFailed, OverBudget.",
    )
    hints: int = Field(default=0, description="Turns the judge gave a hint for.", ge=0)
    positions: int = Field(default=0, description="Row positions that were scored.", ge=0)
    top_k: int | None = Field(default=None, description="Teacher's tokens per position.", ge=1)
    hint_placement: HintPlacement | None = Field(
        default=None, description="Where the teacher read the hints."
    )
    teacher: str | None = Field(default=None, description="Name of the teacher's model.")
    teacher_weights: list[str] = Field(
        default=[],
        description="Labels of the teacher's weights that scored, in order; empty where its server "
        "does not tell.",
        max_length=1024,
    )
    teacher_tokens: int = Field(default=0, description="Tokens sent to the teacher.", ge=0)
    seconds: float = Field(default=0, description="Time it took.", ge=0)
    data: Blob | None = Field(
        default=None, description="The teacher's values (docs/payload.md); absent without any."
    )
    turns: Blob | None = Field(
        default=None, description="Each turn's outcome, votes and hint, as a JSON list."
    )
    completed_at: datetime = Field(description="When it ended.")


class EpisodeResultStatus(ApiModel):
    """What comes after the outcome; each part is written by one writer only."""

    model_config = ConfigDict(extra="ignore")

    delivery: Delivery | None = Field(
        default=None,
        description="Where it is on its way to the trainer; written by the trainer bridge.",
    )
    reason: str | None = Field(default=None, description="Why it was dropped, or is Unknown.")
    message: str | None = Field(default=None, description="Details.", max_length=4096)
    delivery_time: datetime | None = Field(default=None, description="When delivery last changed.")
    distillation: DistillationStatus | None = Field(
        default=None, description="What distillation gave, written by the operator once it ended."
    )


class EpisodeResult(ApiModel):
    """The result of an Episode."""

    model_config = ConfigDict(extra="ignore")

    metadata: dict[str, Any] = Field(description="Standard object metadata.")
    spec: EpisodeResultSpec = Field(description="The outcome.")
    status: EpisodeResultStatus = Field(
        default=EpisodeResultStatus(), description="Distillation and delivery."
    )
