"""`spec.agent` and `spec.model`: who acts, with which tools, sampled how."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import ConfigDict, Field

from episode_operator.api.base import (
    ApiModel,
    Endpoint,
    PositiveSeconds,
    UserName,
    cel,
    validations,
)


class AgentKind(StrEnum):
    """Who acts in the sandbox."""

    MODEL = "Model"
    ORACLE = "Oracle"
    SCRIPTED = "Scripted"


class ToolCall(ApiModel):
    """One tool call of a scripted agent."""

    tool: str = Field(description="Name of the tool.", min_length=1, max_length=64)
    arguments: dict[str, Any] = Field(
        default={},
        description="Arguments of the call.",
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
    )


class Agent(ApiModel):
    """The agent: a model, the task's own solution, or a fixed list of tool calls."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "self.kind == 'Scripted' || !has(self.script) || self.script.size() == 0",
                "script is only for kind Scripted",
                field_path=".script",
            ),
            cel(
                "self.toolTimeoutSeconds < self.timeoutSeconds",
                "toolTimeoutSeconds must be less than timeoutSeconds",
                field_path=".toolTimeoutSeconds",
            ),
        )
    )

    kind: AgentKind = Field(
        default=AgentKind.MODEL,
        description="Model samples from vLLM, Oracle runs task.solution, Scripted runs script.",
    )
    user: UserName | None = Field(
        default=None,
        description="User the agent's tools act as, if not the container's own; needs a container "
        "that runs as root. Such an agent cannot change the image or the tests' tools.",
    )
    max_turns: int = Field(
        default=32, description="Turns after which the agent is stopped and graded.", ge=1, le=1000
    )
    toolsets: list[Literal["terminal", "file"]] = Field(
        default=["terminal", "file"],
        description="Tools given to the model: terminal (terminal, process), "
        "file (read_file, write_file, patch, search_files).",
        min_length=1,
        max_length=8,
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    system_prompt: str | None = Field(
        default=None,
        description="System prompt; a short general one when not set.",
        max_length=65_536,
    )
    timeout_seconds: PositiveSeconds = Field(
        default=1800,
        description="Time limit of the agent, in seconds; passing it ends the agent, "
        "and the state it left is graded.",
    )
    tool_timeout_seconds: PositiveSeconds = Field(
        default=180,
        description="Longest a single foreground tool call may take, in seconds.",
    )
    output_limit_bytes: int = Field(
        default=16_384,
        description="Bytes of one tool's output given to the model; the middle is left out.",
        ge=256,
        le=262_144,
    )
    script: list[ToolCall] = Field(
        default=[], description="Tool calls of a Scripted agent, one a turn.", max_length=256
    )


class Sampling(ApiModel):
    """How the model is sampled."""

    temperature: float = Field(
        default=1.0, description="Sampling temperature; vLLM takes no more than 2.", ge=0, le=2
    )
    top_p: float = Field(default=1.0, description="Nucleus sampling mass.", gt=0, le=1)
    top_k: int = Field(default=0, description="Top-k sampling; 0 is off.", ge=0, le=1_000_000)
    min_p: float = Field(default=0.0, description="Minimum relative probability.", ge=0, le=1)
    max_tokens: int = Field(
        default=2048, description="Most tokens sampled in one turn.", ge=1, le=1_048_576
    )
    seed: int | None = Field(
        default=None,
        description="Seed of the sampler, made different for every turn; random when not set.",
        ge=0,
        le=2_147_483_647,
    )
    top_logprobs: int = Field(
        default=0,
        description="Most likely tokens recorded with each sampled one, at most the server's "
        "--max-logprobs; 0 is none.",
        ge=0,
        le=1000,
    )


class Staleness(ApiModel):
    """How old the weights of an Episode's first token may become; the first limit ends it."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel("has(self.versions) || has(self.seconds)", "versions or seconds must be set")
        )
    )

    versions: int | None = Field(
        default=None,
        description="Most updates of the weights since then: the difference of the server's "
        "labels where both are whole numbers, else how many the operator saw.",
        ge=0,
        le=1_000_000,
    )
    seconds: PositiveSeconds | None = Field(
        default=None,
        description="Most seconds since that turn began, once the weights have changed since; "
        "where the server does not label its weights they count from the start.",
    )


class Model(ApiModel):
    """The model server and the model on it."""

    endpoint: Endpoint = Field(description="Base URL of the vLLM server, without /v1.")
    name: str = Field(
        description="Name the server serves the model under.", min_length=1, max_length=512
    )
    sampling: Sampling = Field(default=Sampling(), description="Sampling parameters.")
    request_timeout_seconds: PositiveSeconds = Field(
        default=600, description="Time limit of one request to the server, in seconds."
    )
    staleness: Staleness | None = Field(
        default=None,
        description="Passing it, before or after a turn, is NoVerdict; no limit when not set.",
    )
