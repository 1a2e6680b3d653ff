"""`spec.steps`: a task in steps, each with an instruction and a verification of its own."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from episode_operator.api.agent import ToolCall
from episode_operator.api.base import (
    ApiModel,
    Archive,
    ContentSource,
    File,
    PositiveSeconds,
    cel,
    validations,
)
from episode_operator.api.task import Setup, Solution
from episode_operator.api.verifier import Verifier


class StepReward(StrEnum):
    """How the rewards of the steps become the Episode's."""

    MEAN = "Mean"
    FINAL = "Final"


class Step(ApiModel):
    """One step. The sandbox and the conversation go on from step to step."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "has(self.instruction) != has(self.instructionFrom)",
                "exactly one of instruction, instructionFrom must be set",
            )
        )
    )

    name: str = Field(
        description="Name of the step, unique in the Episode.",
        pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$",
        max_length=63,
    )
    instruction: str | None = Field(
        default=None, description="What the agent is asked to do.", min_length=1, max_length=262_144
    )
    instruction_from: ContentSource | None = Field(
        default=None, description="Where the instruction comes from instead."
    )
    files: list[File] = Field(
        default=[], description="Files written before the step's setup runs.", max_length=64
    )
    archives: list[Archive] = Field(
        default=[], description="More of them, as archives.", max_length=8
    )
    setup: Setup | None = Field(default=None, description="Script run before the agent goes on.")
    solution: Solution | None = Field(
        default=None, description="The step's own solution, for agent.kind Oracle."
    )
    script: list[ToolCall] = Field(
        default=[], description="Tool calls of a Scripted agent in this step.", max_length=256
    )
    verifier: Verifier = Field(description="The contract that scores the step.")
    agent_timeout_seconds: PositiveSeconds | None = Field(
        default=None, description="Time limit of the agent in this step; agent.timeoutSeconds else."
    )
    min_reward: dict[str, float] = Field(
        default={},
        description="Least value of each named reward component; below any of them, or when it is "
        "missing, the steps after this one are not run. `reward` is the step's reward.",
    )


Steps = Annotated[
    list[Step],
    Field(
        max_length=32,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    ),
]
