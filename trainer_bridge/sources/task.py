"""What every source gives: tasks that build Episodes, and a reason for each that it cannot read."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from episode_operator.api.agent import Agent, Model
from episode_operator.api.base import API_VERSION
from episode_operator.api.episode import EpisodeSpec
from trainer_bridge.sources.archives import ConfigMapPart
from trainer_bridge.sources.errors import Unreadable, UnusableError

LONGEST_SECONDS = 604_800
"""The longest time limit of the API: 7 days."""

_SHORT = 80
_MARGIN_SECONDS = 120
"""Time for what surrounds a step of an attempt: connecting, writing files, reading rewards."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller decides for all tasks.

    Attributes:
        image: reference of the tasks' images, in which `{name}` and `{tag}` stand for the task's
            name and version; a task's own image where it has one when None.
        environ: where `${NAME}` in a task's variables is looked up.
    """

    image: str | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def image_of(self, name: str, tag: str = "latest") -> str | None:
        """The image that the caller names for a task, or None."""
        if self.image is None:
            return None
        repository = re.sub(r"[^a-z0-9._-]+", "-", name.rpartition("/")[2].lower()).strip("._-")
        safe_tag = re.sub(r"[^A-Za-z0-9_.-]+", "-", tag)
        return self.image.replace("{name}", repository).replace("{tag}", safe_tag)


@dataclass(frozen=True, slots=True)
class Build:
    """One Episode of a task, and the ConfigMaps that must be there before it."""

    spec: EpisodeSpec
    parts: tuple[ConfigMapPart, ...] = ()


def manifest(name: str, spec: EpisodeSpec) -> dict[str, Any]:
    """The Episode object, with what differs from the API's defaults."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Episode",
        "metadata": {"name": name},
        "spec": spec.model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude_defaults=True
        ),
    }


class Task(Protocol):
    """A task of any source."""

    @property
    def name(self) -> str:
        """Name of the task: the same each time the source is read."""

    @property
    def family(self) -> str:
        """Family of the task, by which statistics are grouped; never empty."""

    @property
    def notes(self) -> Sequence[str]:
        """What the task says that has no effect here."""

    def build(self, agent: Agent, *, prefix: str, model: Model | None = None) -> Build:
        """An Episode of the task for an agent, whose time limit holds where the task has none.

        The names of its ConfigMaps begin with the prefix.

        Raises:
            Unreadable: the task's files cannot be read, or it has no solution for an Oracle.
        """


def whole_seconds(seconds: float, *, what: str, least: int = 1) -> int:
    """A time limit as the API takes it: rounded up, at least `least` seconds.

    Raises:
        UnusableError: it is no time limit, or too long.
    """
    if not math.isfinite(seconds) or seconds <= 0:
        raise UnusableError(f"{what} is {seconds:g}; a time limit must be above 0")
    if seconds > LONGEST_SECONDS:
        raise UnusableError(f"{what} is {seconds:g}; the longest is {LONGEST_SECONDS} (7 days)")
    return max(least, math.ceil(seconds))


def limited(agent: Agent, seconds: int, **fields: Any) -> dict[str, Any]:
    """The agent's fields with a time limit, which bounds that of its tools, and others replaced."""
    return {
        **agent.model_dump(),
        "timeout_seconds": seconds,
        "tool_timeout_seconds": min(agent.tool_timeout_seconds, seconds - 1),
        **fields,
    }


def episode_spec(path: Path | str, fields: Mapping[str, Any]) -> EpisodeSpec:
    """The spec with a deadline that leaves every attempt its full time.

    Raises:
        Unreadable: the API refuses a value, or the steps take longer than an Episode may.
    """
    try:
        spec = EpisodeSpec.model_validate(fields)
    except ValidationError as error:
        raise Unreadable(path, first_error(error)) from error
    return with_deadline(path, spec)


def with_deadline(path: Path | str, spec: EpisodeSpec) -> EpisodeSpec:
    """The spec with a deadline that leaves every attempt its full time.

    Raises:
        Unreadable: the steps take longer than an Episode may.
    """
    setup = spec.task.setup.timeout_seconds if spec.task.setup else 0
    least = setup + sum(
        (step.setup.timeout_seconds if step.setup else 0)
        + (step.agent_timeout_seconds or spec.agent.timeout_seconds)
        + step.verifier.timeout_seconds
        for step in spec.plan
    )
    if least > LONGEST_SECONDS:
        raise Unreadable(path, f"setup, agent and tests may take {least} s; an Episode has 7 days")
    attempt = spec.sandbox.start_deadline_seconds + least + _MARGIN_SECONDS * len(spec.plan)
    deadline = min(LONGEST_SECONDS, attempt * (1 + spec.infra_retry_limit))
    return spec.model_copy(update={"active_deadline_seconds": deadline})


def first_error(error: ValidationError) -> str:
    """The first thing that is wrong, with its place."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    told = f"{place}: {first['msg']}" if place else first["msg"]
    value = repr(first["input"])
    return f"{told} (it is {value})" if len(value) < _SHORT else told
