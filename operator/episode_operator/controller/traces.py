"""What the trace of an Episode tells of its attempts and of its end: counts and reasons, no text.

Names of attributes are OpenTelemetry's where it has one.
"""

from episode_operator.agent.report import Progress
from episode_operator.api.episode import Episode
from episode_operator.api.reasons import AgentEnd, Verdict
from episode_operator.api.result import DistillationStatus
from episode_operator.lifecycle.outcome import Failure, Scored
from episode_operator.lifecycle.pods import PodView
from episode_operator.tracing import Attribute, Place, Span, SpanExport, Trace


class EpisodeTrace:
    """The trace of one Episode; without an export it is none."""

    def __init__(self, export: SpanExport | None, uid: str) -> None:
        self._place = Place.of_episode(export, uid)
        self._attempt = Trace()

    def attempt(self, number: int) -> Trace:
        """For spans of an attempt that is to be driven now."""
        self._attempt = Trace(self._place.child("attempt", number))
        return self._attempt

    def distillation(self) -> Span:
        """The span of the Episode's distillation, to be entered."""
        return Trace(self._place).span("distillation")

    def attempt_ended(self, episode: Episode, pod: PodView | None, end: Scored | Failure) -> None:
        """The current attempt has ended, and with it what it was at.

        An attempt without a pod has nothing to tell.
        """
        failure = end.reason if isinstance(end, Failure) else None
        if failure is not None:
            self._attempt.failed(failure)
        if pod is None:
            return
        attributes: dict[str, Attribute] = {
            "episode.attempt": episode.status.attempt,
            "k8s.pod.name": pod.name,
            "k8s.pod.uid": pod.uid,
            **verdict_attributes(end),
        }
        place = self._place.child("attempt", episode.status.attempt)
        place.ended(start=pod.created, failure=failure, attributes=attributes)

    def finished(self, episode: Episode) -> None:
        """The Episode is finished, as its status says."""
        status, model = episode.status, episode.spec.model
        failure = status.reason if status.verdict is Verdict.NO_VERDICT else None
        attributes: dict[str, Attribute] = {
            "k8s.namespace.name": episode.namespace,
            "episode.name": episode.name,
            "episode.uid": episode.uid,
            "episode.agent": episode.spec.agent.kind.value,
            "episode.verdict": status.verdict,
            "episode.reason": status.reason,
            "episode.reward": status.reward,
            "episode.attempts": status.attempt + 1,
            "episode.turns": status.turns,
            "episode.tokens": status.tokens,
            "gen_ai.request.model": None if model is None else model.name,
        }
        self._place.ended(start=episode.created.timestamp(), failure=failure, attributes=attributes)


def verdict_attributes(end: Scored | Failure) -> dict[str, Attribute]:
    """Verdict, reason and reward of an attempt or of one of its steps."""
    if isinstance(end, Failure):
        return {"episode.verdict": Verdict.NO_VERDICT.value, "episode.reason": end.reason.value}
    return {
        "episode.verdict": end.verdict.value,
        "episode.reason": end.reason,
        "episode.reward": end.reward,
    }


def agent_attributes(end: AgentEnd, progress: Progress) -> dict[str, Attribute]:
    """How an agent ended, and its counts, which are of all steps so far."""
    return {
        "episode.agent.end": end.value,
        "episode.turns": progress.turns,
        "episode.tool_calls": progress.tool_calls,
        "episode.tool_errors": progress.tool_errors,
        "episode.malformed_calls": progress.malformed_calls.total(),
    }


def distillation_attributes(told: DistillationStatus) -> dict[str, Attribute]:
    """How a distillation ended, its turns by outcome, and what it cost."""
    return {
        "episode.distillation.state": told.state.value,
        "episode.distillation.positions": told.positions,
        "episode.distillation.teacher_tokens": told.teacher_tokens,
        "gen_ai.request.model": told.teacher,
        **{f"episode.distillation.turns.{name}": count for name, count in told.outcomes.items()},
    }
