"""`spec.task`: what the agent is asked to do, and in which image."""

from typing import Annotated

from pydantic import ConfigDict, Field

from episode_operator.api.base import (
    AbsolutePath,
    ApiModel,
    Archive,
    ContentSource,
    EnvVar,
    File,
    PositiveSeconds,
    cel,
    validations,
)

Script = Annotated[str, Field(min_length=1, max_length=524_288)]


class Setup(ApiModel):
    """A shell script run once before the agent starts; if it fails the task is broken."""

    script: Script = Field(description="Shell script, run with /bin/sh in the task's workdir.")
    timeout_seconds: PositiveSeconds = Field(
        default=300, description="Time limit of the script, in seconds."
    )


class Solution(ApiModel):
    """The task's own solution. It reaches the sandbox only when agent.kind is Oracle."""

    script: Script = Field(description="Shell script that solves the task.")
    files: list[File] = Field(
        default=[], description="Files the script needs, written before it runs.", max_length=64
    )
    archives: list[Archive] = Field(
        default=[], description="More of them, as archives.", max_length=8
    )
    env: list[EnvVar] = Field(
        default=[], description="Environment of the script, added to the image's.", max_length=64
    )


class Task(ApiModel):
    """The task: image, instruction and the state the sandbox starts from."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            cel(
                "!(has(self.instruction) && has(self.instructionFrom))",
                "at most one of instruction, instructionFrom may be set",
            )
        )
    )

    image: str = Field(
        description="Container image of the sandbox; pin it by digest.",
        min_length=1,
        max_length=512,
        pattern=r"^[^\s]+$",
    )
    instruction: str | None = Field(
        default=None,
        description="What the agent is asked to do; each step has its own when there are steps.",
        min_length=1,
        max_length=262_144,
    )
    instruction_from: ContentSource | None = Field(
        default=None, description="Where the instruction comes from instead."
    )
    workdir: AbsolutePath | None = Field(
        default=None,
        description="Working directory of the agent and the verifier; the image's when not set.",
    )
    user: int | None = Field(
        default=None,
        description="User id of everything in the sandbox; the image's user when not set.",
        ge=0,
        le=2_147_483_647,
    )
    env: list[EnvVar] = Field(
        default=[],
        description="Environment of the sandbox, added to the image's.",
        max_length=128,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    files: list[File] = Field(
        default=[], description="Files written before setup runs.", max_length=64
    )
    archives: list[Archive] = Field(
        default=[], description="More of them, as archives.", max_length=8
    )
    setup: Setup | None = Field(default=None, description="Script run before the agent starts.")
    solution: Solution | None = Field(
        default=None, description="The task's own solution, for agent.kind Oracle."
    )
