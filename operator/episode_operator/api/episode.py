"""The Episode resource."""

from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field

from episode_operator.api.agent import Agent, AgentKind, Model
from episode_operator.api.base import (
    AbsolutePath,
    ApiModel,
    ObjectName,
    PositiveSeconds,
    cel,
    validations,
)
from episode_operator.api.distillation import Distillation
from episode_operator.api.reasons import ConditionType, Phase, Verdict
from episode_operator.api.sandbox import Sandbox
from episode_operator.api.step import Step, StepReward, Steps
from episode_operator.api.task import Task
from episode_operator.api.verifier import Verifier


class Group(ApiModel):
    """The training group the Episode is a member of; copied to its EpisodeResult."""

    name: ObjectName = Field(description="Name of the group.")
    member: int = Field(description="Index in the group, from 0.", ge=0, le=100_000)


_SETUP_SECONDS = "(has(self.task.setup) ? self.task.setup.timeoutSeconds : 0)"
_NO_STEPS = "(!has(self.steps) || self.steps.size() == 0)"
_MAY_BE_ROOT = "(!has(self.task.user) || self.task.user == 0)"
_SCRIPT = "(has(self.agent.script) && self.agent.script.size() > 0)"


class EpisodeSpec(ApiModel):
    """What to run. Immutable: an Episode with another spec is another Episode."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel("self == oldSelf", "spec is immutable; create a new Episode instead"),
            cel(
                "self.agent.kind != 'Model' || has(self.model)",
                "model must be set when agent.kind is Model",
                field_path=".agent.kind",
            ),
            cel(
                "self.agent.kind == 'Model' || !has(self.distillation)",
                "distillation is only for agent.kind Model: nothing else samples tokens",
                field_path=".distillation",
            ),
            cel(
                "!has(self.distillation) || !self.distillation.studentTopK || "
                "!has(self.model) || self.model.sampling.topLogprobs > 0",
                "distillation.studentTopK needs model.sampling.topLogprobs",
                field_path=".distillation.studentTopK",
            ),
            cel(
                f"{_MAY_BE_ROOT} || !has(self.agent.user)",
                "agent.user needs a container that runs as root; leave task.user out",
                field_path=".agent.user",
            ),
            cel(
                f"{_MAY_BE_ROOT} || !({_NO_STEPS} ? has(self.verifier.user) : "
                "self.steps.exists(s, has(s.verifier.user)))",
                "verifier.user needs a container that runs as root; leave task.user out",
                field_path=".task.user",
            ),
            cel(
                f"has(self.verifier) == {_NO_STEPS}",
                "verifier must be set when there are no steps; with steps each has its own",
                field_path=".verifier",
            ),
            cel(
                "(has(self.task.instruction) || has(self.task.instructionFrom)) == " + _NO_STEPS,
                "exactly one of instruction, instructionFrom must be set when there are no steps; "
                "with steps each has its own",
                field_path=".task.instruction",
            ),
            cel(
                f"self.agent.kind != 'Oracle' || ({_NO_STEPS} ? has(self.task.solution) : "
                "self.steps.all(s, has(s.solution)))",
                "task.solution, or that of each step, must be set when agent.kind is Oracle",
                field_path=".task.solution",
            ),
            cel(
                "self.agent.kind == 'Oracle' || (!has(self.task.solution) && "
                f"({_NO_STEPS} || !self.steps.exists(s, has(s.solution))))",
                "task.solution is only for agent.kind Oracle, so that no agent can see it",
                field_path=".task.solution",
            ),
            cel(
                f"self.agent.kind != 'Scripted' || ({_NO_STEPS} ? {_SCRIPT} : "
                "self.steps.all(s, has(s.script) && s.script.size() > 0))",
                "script must list at least one tool call when kind is Scripted, for each step "
                "when there are steps",
                field_path=".agent.script",
            ),
            cel(
                f"{_NO_STEPS} || !has(self.task.solution) && !{_SCRIPT}",
                "with steps each has its own solution and script",
                field_path=".steps",
            ),
            cel(
                f"{_NO_STEPS} || self.activeDeadlineSeconds >= {_SETUP_SECONDS} + "
                "self.steps.map(s, s.verifier.timeoutSeconds + (has(s.agentTimeoutSeconds) ? "
                "s.agentTimeoutSeconds : self.agent.timeoutSeconds)).sum()",
                "activeDeadlineSeconds must be at least the time limits of all steps together",
                field_path=".activeDeadlineSeconds",
            ),
            cel(
                f"!{_NO_STEPS} || self.activeDeadlineSeconds >= self.agent.timeoutSeconds + "
                f"self.verifier.timeoutSeconds + {_SETUP_SECONDS}",
                "activeDeadlineSeconds must be at least agent.timeoutSeconds + "
                "verifier.timeoutSeconds + task.setup.timeoutSeconds",
                field_path=".activeDeadlineSeconds",
            ),
        )
    )

    task: Task = Field(description="What the agent is asked to do, and in which image.")
    verifier: Verifier | None = Field(
        default=None,
        description="The contract that turns the final state into a reward; needed unless there "
        "are steps.",
    )
    steps: Steps = Field(
        default=[],
        description="A task in steps: in each the agent gets another instruction in the same "
        "sandbox, and a verifier of the step's own gives its reward.",
    )
    step_reward: StepReward = Field(
        default=StepReward.MEAN,
        description="Mean of the rewards of the steps that were reached, or the Final one, that of "
        "the last step reached.",
    )
    artifacts: list[AbsolutePath] = Field(
        default=[],
        description="Files and folders kept with the result, as they are after the verification; "
        "what the verifier left in /logs is kept when asked for here.",
        max_length=64,
    )
    agent: Agent = Field(default=Agent(), description="Who acts, with which tools and limits.")
    model: Model | None = Field(
        default=None, description="The model server; needed when agent.kind is Model."
    )
    distillation: Distillation | None = Field(
        default=None,
        description="On-policy distillation of the model's turns after the verdict; off when not "
        "set.",
    )
    sandbox: Sandbox = Field(default=Sandbox(), description="Where the pod runs, and its limits.")
    group: Group | None = Field(default=None, description="The training group, if any.")
    infra_retry_limit: int = Field(
        default=2,
        description="Fresh pods after infrastructure failures; then the verdict is NoVerdict.",
        ge=0,
        le=10,
    )
    active_deadline_seconds: PositiveSeconds = Field(
        default=7200,
        description="Time limit of the whole Episode with its retries, in seconds; "
        "passing it is NoVerdict.",
    )
    ttl_seconds_after_finished: int | None = Field(
        default=None,
        description="Seconds after which a finished Episode is deleted; kept when not set. "
        "Its EpisodeResult stays.",
        ge=0,
        le=31_536_000,
    )

    @property
    def needs_model(self) -> bool:
        """Whether the agent samples from a model server."""
        return self.agent.kind is AgentKind.MODEL

    @property
    def plan(self) -> tuple[Step, ...]:
        """The steps; an Episode without any is one step without a name."""
        if self.steps:
            return tuple(self.steps)
        assert self.verifier is not None  # CEL admits no Episode without
        return (
            Step.model_construct(
                name="",
                instruction=self.task.instruction,
                instruction_from=self.task.instruction_from,
                files=[],
                archives=[],
                setup=None,
                solution=self.task.solution,
                script=self.agent.script,
                verifier=self.verifier,
                agent_timeout_seconds=None,
                min_reward={},
            ),
        )


class Condition(ApiModel):
    """metav1.Condition."""

    model_config = ConfigDict(extra="ignore")

    type: str = Field(description="Condition type.", max_length=316)
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    reason: str = Field(description="CamelCase reason.", min_length=1, max_length=1024)
    message: str = Field(default="", description="What happened and what to do.", max_length=32_768)
    last_transition_time: datetime = Field(description="When the status last changed.")
    observed_generation: int = Field(
        default=0, description="Generation of the spec this condition is about.", ge=0
    )


class AttemptStatus(ApiModel):
    """A pod that failed, and why a fresh one was made."""

    model_config = ConfigDict(extra="ignore")

    attempt: int = Field(description="Number of the attempt, from 0.", ge=0)
    pod_uid: str | None = Field(default=None, description="Uid of its pod, if it had one.")
    reason: str = Field(description="Why it ended.")
    message: str = Field(default="", description="Details.", max_length=4096)


class EpisodeStatus(ApiModel):
    """What the operator observed. Written by the operator only."""

    model_config = ConfigDict(extra="ignore")

    observed_generation: int | None = Field(
        default=None, description="Generation of the spec the status is about."
    )
    phase: Phase | None = Field(default=None, description="Derived from the conditions.")
    attempt: int = Field(default=0, description="Number of the current pod, from 0.", ge=0)
    attempts: list[AttemptStatus] = Field(
        default=[], description="Earlier pods and why they ended.", max_length=16
    )
    retry_time: datetime | None = Field(
        default=None, description="When the next attempt starts, after a failed one."
    )
    pod_name: str | None = Field(default=None, description="Name of the current pod.")
    pod_uid: str | None = Field(default=None, description="Uid of the current pod.")
    verdict: Verdict | None = Field(default=None, description="Passed, Failed or NoVerdict.")
    reward: float | None = Field(
        default=None, description="The reward; absent when there is no verdict."
    )
    reason: str | None = Field(default=None, description="Why the Episode ended as it did.")
    message: str | None = Field(default=None, description="Details.", max_length=32_768)
    turns: int | None = Field(default=None, description="Turns the agent took.", ge=0)
    tokens: int | None = Field(default=None, description="Tokens in the training row.", ge=0)
    result_name: str | None = Field(default=None, description="Name of the EpisodeResult.")
    start_time: datetime | None = Field(default=None, description="When the first pod was created.")
    completion_time: datetime | None = Field(default=None, description="When it finished.")
    conditions: list[Condition] = Field(
        default=[],
        description="SandboxReady, AgentCompleted, Verified, Failed, Distilled, Finished.",
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )

    @property
    def finished(self) -> bool:
        """Whether the Finished condition is true."""
        return any(c.type == ConditionType.FINISHED and c.status == "True" for c in self.conditions)


class Episode(ApiModel):
    """One run of an agent on a task in a sandbox, scored by a verifier."""

    model_config = ConfigDict(extra="ignore")

    metadata: dict[str, Any] = Field(description="Standard object metadata.")
    spec: EpisodeSpec = Field(description="What to run.")
    status: EpisodeStatus = Field(
        default=EpisodeStatus(), description="What the operator observed."
    )

    @property
    def name(self) -> str:
        """metadata.name."""
        return str(self.metadata["name"])

    @property
    def namespace(self) -> str:
        """metadata.namespace."""
        return str(self.metadata["namespace"])

    @property
    def uid(self) -> str:
        """metadata.uid."""
        return str(self.metadata["uid"])

    @property
    def generation(self) -> int:
        """metadata.generation."""
        return int(self.metadata.get("generation", 1))

    @property
    def created(self) -> datetime:
        """metadata.creationTimestamp."""
        return datetime.fromisoformat(self.metadata["creationTimestamp"])
