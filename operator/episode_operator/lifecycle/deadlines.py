"""The one place that computes deadlines, so that each lies inside the next by construction.

tool call < agent < pod, verifier command < verifier < pod, and the pod's own deadline, which the
kubelet enforces even when no operator runs, lies beyond all of them.
"""

from dataclasses import dataclass

from episode_operator.api.episode import EpisodeSpec
from episode_operator.api.step import Step
from episode_operator.api.task import Setup

_STEP_MARGIN_SECONDS = 30
"""Time for what surrounds a step: connecting, writing files, killing processes, reading rewards."""

_LONGEST_BACKOFF_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Deadlines:
    """All in seconds, each from the start of its own step."""

    start: int
    tool: int
    pod: int
    episode: int


def _setup(setup: Setup | None) -> int:
    return setup.timeout_seconds if setup else 0


def agent_seconds(spec: EpisodeSpec, step: Step) -> int:
    """The agent's time in a step."""
    return step.agent_timeout_seconds or spec.agent.timeout_seconds


def deadlines(spec: EpisodeSpec) -> Deadlines:
    """The deadlines of an Episode."""
    steps = sum(
        _setup(step.setup)
        + agent_seconds(spec, step)
        + step.verifier.timeout_seconds
        + 3 * _STEP_MARGIN_SECONDS
        for step in spec.plan
    )
    return Deadlines(
        start=spec.sandbox.start_deadline_seconds,
        tool=min(
            spec.agent.tool_timeout_seconds, *(agent_seconds(spec, step) for step in spec.plan)
        ),
        pod=spec.sandbox.start_deadline_seconds + _setup(spec.task.setup) + steps,
        episode=spec.active_deadline_seconds,
    )


def backoff_seconds(attempt: int, *, first: float) -> float:
    """Pause before a fresh pod after attempt 0, 1, ...: doubled each time, up to 5 minutes."""
    return min(first * 2.0**attempt, _LONGEST_BACKOFF_SECONDS)
