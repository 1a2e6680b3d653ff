"""Builds the status of an Episode: pure functions from one status to the next."""

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from episode_operator.api.base import API_VERSION
from episode_operator.api.distillation import DistillationState
from episode_operator.api.episode import AttemptStatus, Condition, Episode, EpisodeStatus
from episode_operator.api.reasons import ConditionType, Phase, Verdict
from episode_operator.api.result import EpisodeResult
from episode_operator.lifecycle.outcome import Failure
from episode_operator.lifecycle.pods import PodView

_MESSAGE_MAX = 4000
_ATTEMPTS_MAX = 16


def clip(message: str) -> str:
    """The message, cut to what a status may hold."""
    return message if len(message) <= _MESSAGE_MAX else message[: _MESSAGE_MAX - 1] + "…"


def _phase(conditions: list[Condition]) -> Phase:
    true = {c.type for c in conditions if c.status == "True"}
    if ConditionType.FINISHED in true:
        return Phase.FINISHED
    if true & {ConditionType.VERIFIED, ConditionType.FAILED}:
        return Phase.DISTILLING
    if ConditionType.AGENT_COMPLETED in true:
        return Phase.VERIFYING
    if ConditionType.SANDBOX_READY in true:
        return Phase.RUNNING
    return Phase.STARTING


def with_condition(
    status: EpisodeStatus,
    kind: ConditionType,
    *,
    value: bool,
    reason: str,
    message: str,
    generation: int,
    now: datetime,
) -> EpisodeStatus:
    """The status with one condition set; its transition time moves only when its value does."""
    text: Literal["True", "False"] = "True" if value else "False"
    old = next((c for c in status.conditions if c.type == kind), None)
    changed = old is None or old.status != text
    new = Condition(
        type=kind,
        status=text,
        reason=reason,
        message=clip(message),
        last_transition_time=now if changed or old is None else old.last_transition_time,
        observed_generation=generation,
    )
    rest = [c for c in status.conditions if c.type != kind]
    conditions = [*rest, new]
    return status.model_copy(
        update={
            "conditions": conditions,
            "phase": _phase(conditions),
            "observed_generation": generation,
        }
    )


def starting(episode: Episode, name: str, now: datetime) -> EpisodeStatus:
    """The pod is about to be created."""
    status = episode.status.model_copy(
        update={"pod_name": name, "start_time": episode.status.start_time or now}
    )
    return with_condition(
        status,
        ConditionType.SANDBOX_READY,
        value=False,
        reason="Starting",
        message=f"waiting for pod {name} to run",
        generation=episode.generation,
        now=now,
    )


def held_up(episode: Episode, reason: str, message: str, now: datetime) -> EpisodeStatus:
    """The pod cannot be created or cannot run now: a quota is used up, or an image is not there."""
    return with_condition(
        episode.status,
        ConditionType.SANDBOX_READY,
        value=False,
        reason=reason,
        message=message,
        generation=episode.generation,
        now=now,
    )


def recorded(episode: Episode, pod: PodView) -> EpisodeStatus:
    """The pod exists: from now on its loss is a failure of the attempt."""
    return episode.status.model_copy(update={"pod_name": pod.name, "pod_uid": pod.uid})


def ready(episode: Episode, pod: PodView, now: datetime) -> EpisodeStatus:
    """The pod runs and is driven."""
    return with_condition(
        episode.status,
        ConditionType.SANDBOX_READY,
        value=True,
        reason="Running",
        message=f"pod {pod.name} runs",
        generation=episode.generation,
        now=now,
    )


def agent_completed(
    episode: Episode, *, end: str, turns: int, message: str, now: datetime
) -> EpisodeStatus:
    """The agent has ended; the verifier comes next."""
    status = episode.status.model_copy(update={"turns": turns})
    return with_condition(
        status,
        ConditionType.AGENT_COMPLETED,
        value=True,
        reason=end,
        message=message,
        generation=episode.generation,
        now=now,
    )


def next_attempt(
    episode: Episode, failure: Failure, now: datetime, *, pause: timedelta
) -> EpisodeStatus:
    """The attempt failed and a fresh pod is to be made after a pause."""
    old = episode.status
    record = AttemptStatus(
        attempt=old.attempt,
        pod_uid=old.pod_uid,
        reason=failure.reason,
        message=clip(failure.message),
    )
    status = old.model_copy(
        update={
            "attempt": old.attempt + 1,
            "attempts": [*old.attempts, record][-_ATTEMPTS_MAX:],
            "retry_time": now + pause,
            "pod_name": None,
            "pod_uid": None,
            "turns": None,
            "conditions": [c for c in old.conditions if c.type != ConditionType.AGENT_COMPLETED],
        }
    )
    return with_condition(
        status,
        ConditionType.SANDBOX_READY,
        value=False,
        reason=failure.reason,
        message=f"{failure.message}; trying again on a fresh pod in {pause.total_seconds():g} s",
        generation=episode.generation,
        now=now,
    )


def not_stored(episode: Episode, message: str, now: datetime) -> EpisodeStatus:
    """The object store does not take what the attempt, or the distillation after it, gave."""
    distilling = episode.status.phase is Phase.DISTILLING
    return with_condition(
        episode.status,
        ConditionType.DISTILLED if distilling else ConditionType.VERIFIED,
        value=False,
        reason="ResultNotStored",
        message=f"{message}; trying again",
        generation=episode.generation,
        now=now,
    )


def verified(episode: Episode, result: EpisodeResult, now: datetime) -> EpisodeStatus:
    """The result is written, and the pod is not needed any more."""
    spec = result.spec
    scored = spec.verdict is not Verdict.NO_VERDICT
    status = episode.status.model_copy(
        update={
            "verdict": spec.verdict,
            "reward": spec.reward,
            "reason": spec.reason,
            "message": clip(spec.message) or None,
            "turns": spec.counts.turns,
            "tokens": spec.counts.tokens,
            "result_name": result.metadata["name"],
        }
    )
    values = {
        ConditionType.VERIFIED: scored,
        ConditionType.FAILED: not scored,
        ConditionType.SANDBOX_READY: False,
    }
    for kind, value in values.items():
        status = with_condition(
            status,
            kind,
            value=value,
            reason=spec.reason,
            message=spec.message,
            generation=episode.generation,
            now=now,
        )
    return status


def distilling(episode: Episode, result: EpisodeResult, now: datetime) -> EpisodeStatus:
    """The verdict is known; the teacher scores the turns."""
    return with_condition(
        verified(episode, result, now),
        ConditionType.DISTILLED,
        value=False,
        reason="Distilling",
        message="the teacher scores the turns",
        generation=episode.generation,
        now=now,
    )


def finished(episode: Episode, result: EpisodeResult, now: datetime) -> EpisodeStatus:
    """Nothing is left to do; the result's verdict goes into the status."""
    status = verified(episode, result, now).model_copy(update={"completion_time": now})
    distilled = result.status.distillation
    if distilled is not None:
        status = with_condition(
            status,
            ConditionType.DISTILLED,
            value=distilled.state is DistillationState.COMPLETED,
            reason=distilled.state,
            message=distilled.message,
            generation=episode.generation,
            now=now,
        )
    return with_condition(
        status,
        ConditionType.FINISHED,
        value=True,
        reason=result.spec.reason,
        message=result.spec.message,
        generation=episode.generation,
        now=now,
    )


def finished_without_result(episode: Episode, message: str, now: datetime) -> EpisodeStatus:
    """The result was deleted while it was distilled; its verdict is in the status already."""
    status = episode.status.model_copy(update={"completion_time": now})
    assert status.reason is not None  # written together with the result's name
    conditions = (
        (ConditionType.DISTILLED, False, "ResultDeleted"),
        (ConditionType.FINISHED, True, status.reason),
    )
    for kind, value, reason in conditions:
        status = with_condition(
            status,
            kind,
            value=value,
            reason=reason,
            message=message,
            generation=episode.generation,
            now=now,
        )
    return status


def body(episode: Episode, status: EpisodeStatus) -> dict[str, Any]:
    """The object to apply: the whole status, owned by the operator."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Episode",
        "metadata": {"name": episode.name, "namespace": episode.namespace, "uid": episode.uid},
        "status": status.to_api(),
    }


def utc_now() -> datetime:
    """Now, in whole seconds as Kubernetes writes times."""
    return datetime.now(UTC).replace(microsecond=0)
