"""The one place that computes deadlines, so that each lies inside the next by construction.

tool call < agent < pod, verifier command < verifier < pod, and the pod's own deadline, which the
kubelet enforces even when no operator runs, lies beyond all of them.
"""

from dataclasses import dataclass

from episode_operator.api.episode import EpisodeSpec

_STEP_MARGIN_SECONDS = 30
"""Time for what surrounds a step: connecting, writing files, killing processes, reading rewards."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """All in seconds, each from the start of its own step."""

    start: int
    setup: int
    tool: int
    agent: int
    verifier_command: int
    pod: int
    episode: int


def deadlines(spec: EpisodeSpec) -> Deadlines:
    """The deadlines of an Episode; `verifier_command` limits the command inside the pod."""
    setup = spec.task.setup.timeout_seconds if spec.task.setup else 0
    steps = setup + spec.agent.timeout_seconds + spec.verifier.timeout_seconds
    return Deadlines(
        start=spec.sandbox.start_deadline_seconds,
        setup=setup,
        tool=min(spec.agent.tool_timeout_seconds, spec.agent.timeout_seconds),
        agent=spec.agent.timeout_seconds,
        verifier_command=spec.verifier.timeout_seconds,
        pod=spec.sandbox.start_deadline_seconds + steps + 3 * _STEP_MARGIN_SECONDS,
        episode=spec.active_deadline_seconds,
    )
