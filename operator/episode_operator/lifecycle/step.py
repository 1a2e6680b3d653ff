"""next_step(spec, observed) -> Action: the transition table.

The controller observes, asks for the next step, performs it, and observes again. Every action is
safe to repeat, so a restarted operator goes on from what it sees.
"""

from collections.abc import Callable
from dataclasses import dataclass

from episode_operator.api.episode import Condition, EpisodeSpec, EpisodeStatus
from episode_operator.api.reasons import ConditionType, NoVerdictReason
from episode_operator.lifecycle.deadlines import deadlines
from episode_operator.lifecycle.outcome import Failure, Outcome
from episode_operator.lifecycle.pods import PodView


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything a decision depends on; times in seconds since the epoch."""

    now: float
    created: float
    status: EpisodeStatus
    pod: PodView | None = None
    stale_pods: bool = False
    """Pods exist that nothing needs: those of earlier attempts, once published all."""
    driving: bool = False
    outcome: Outcome | None = None
    published: bool = False
    """The EpisodeResult exists, with all its parts."""
    distilled: bool = False
    """The EpisodeResult tells what distillation gave, or the spec asks for none."""


@dataclass(frozen=True, slots=True)
class DeleteEpisode:
    """The time to live has passed."""


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Delete pods that nothing needs any more."""


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create the pod of the current attempt, or adopt it if it exists already."""


@dataclass(frozen=True, slots=True)
class RecordPod:
    """Write the current pod's name and uid into the status."""

    pod: PodView


@dataclass(frozen=True, slots=True)
class TellWaiting:
    """Write into the status what keeps the pod from running."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Drive:
    """Attach to the running pod and drive the episode in it."""

    pod: PodView


@dataclass(frozen=True, slots=True)
class NextAttempt:
    """Record the failure and go on with a fresh pod."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Publish:
    """Write the EpisodeResult."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Distill:
    """Score the recorded turns, and write what that gave into the EpisodeResult's status."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Write the result's verdict into the status and set Finished."""


@dataclass(frozen=True, slots=True)
class FinishWithoutResult:
    """Set Finished with the verdict that the status has already."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until something changes, or until `until` (None: no limit)."""

    until: float | None


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing will ever be left to do."""


Action = (
    DeleteEpisode
    | DeletePods
    | CreatePod
    | RecordPod
    | TellWaiting
    | Drive
    | NextAttempt
    | Publish
    | Distill
    | Finish
    | FinishWithoutResult
    | Wait
    | Done
)


def _start_overdue(spec: EpisodeSpec, o: Observed) -> Failure | None:
    if o.pod is None or o.pod.running:
        return None
    limit = deadlines(spec).start
    if o.pod.waiting.reason is NoVerdictReason.IMAGE_PULL_FAILED:
        limit = limit // 2  # the verdict has to come inside the start deadline
    return o.pod.waiting if o.now >= o.pod.created + limit else None


def attempt_failure(spec: EpisodeSpec, o: Observed) -> Failure | None:
    """Why the current attempt failed, if it did; what the pod says beats what the session felt."""
    if o.outcome is not None and not isinstance(o.outcome.end, Failure):
        return None
    if o.pod is not None and o.pod.failure is not None:
        return o.pod.failure
    if o.outcome is not None and isinstance(o.outcome.end, Failure):
        return o.outcome.end
    if o.status.pod_uid is not None and (o.pod is None or o.pod.uid != o.status.pod_uid):
        return Failure(
            NoVerdictReason.POD_LOST, f"pod {o.status.pod_name} ({o.status.pod_uid}) is gone"
        )
    return _start_overdue(spec, o)


def _overdue(spec: EpisodeSpec, o: Observed) -> bool:
    scored = o.outcome is not None and not isinstance(o.outcome.end, Failure)
    return not scored and o.now >= o.created + deadlines(spec).episode


def _ttl_end(spec: EpisodeSpec, o: Observed) -> float | None:
    if spec.ttl_seconds_after_finished is None or o.status.completion_time is None:
        return None
    return o.status.completion_time.timestamp() + spec.ttl_seconds_after_finished


def _ttl_passed(spec: EpisodeSpec, o: Observed) -> bool:
    end = _ttl_end(spec, o)
    return o.status.finished and end is not None and o.now >= end


def _sandbox_ready(o: Observed) -> Condition | None:
    return next((c for c in o.status.conditions if c.type == ConditionType.SANDBOX_READY), None)


def _last_message(o: Observed) -> str:
    ready = _sandbox_ready(o)
    return f"; at that time: {ready.reason}: {ready.message}" if ready else ""


def _untold(_spec: EpisodeSpec, o: Observed) -> bool:
    """Whether the status does not tell yet, by its reason, what keeps the pod from running."""
    if o.pod is None or o.pod.running:
        return False
    reason, ready = o.pod.waiting.reason, _sandbox_ready(o)
    return reason is not NoVerdictReason.START_DEADLINE_EXCEEDED and (
        ready is None or ready.reason != reason
    )


def _publish_overdue(spec: EpisodeSpec, o: Observed) -> Action:
    cause = attempt_failure(spec, o)
    detail = f"; at that time: {cause.reason}: {cause.message}" if cause else _last_message(o)
    failure = Failure(
        NoVerdictReason.DEADLINE_EXCEEDED,
        f"no verdict within activeDeadlineSeconds ({deadlines(spec).episode} s){detail}",
    )
    return Publish(Outcome(failure, o.outcome.report if o.outcome else None))


def _failed(spec: EpisodeSpec, o: Observed) -> Action:
    failure = attempt_failure(spec, o)
    assert failure is not None  # the row's condition
    if failure.retryable and o.status.attempt < spec.infra_retry_limit:
        return NextAttempt(failure)
    return Publish(Outcome(failure, o.outcome.report if o.outcome else None))


def _scored(spec: EpisodeSpec, o: Observed) -> Action:
    assert o.outcome is not None  # the row's condition
    return Publish(o.outcome)


def _with_pod(action: Callable[[PodView], Action]) -> Callable[[EpisodeSpec, Observed], Action]:
    def then(_spec: EpisodeSpec, o: Observed) -> Action:
        assert o.pod is not None  # the row's condition
        return action(o.pod)

    return then


def _wait_for_retry(spec: EpisodeSpec, o: Observed) -> Action:
    assert o.status.retry_time is not None  # the row's condition
    return Wait(min(o.status.retry_time.timestamp(), o.created + deadlines(spec).episode))


def _pausing(_spec: EpisodeSpec, o: Observed) -> bool:
    retry = o.status.retry_time
    return o.pod is None and retry is not None and o.now < retry.timestamp()


def _wait_for_start(spec: EpisodeSpec, o: Observed) -> Action:
    assert o.pod is not None  # the row's condition
    limits = deadlines(spec)
    half = o.pod.created + limits.start // 2
    start = half if o.now < half else o.pod.created + limits.start
    return Wait(min(start, o.created + limits.episode))


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table: the first whose condition holds decides."""

    name: str
    when: Callable[[EpisodeSpec, Observed], bool]
    then: Callable[[EpisodeSpec, Observed], Action]


TABLE: tuple[Row, ...] = (
    Row("finished, time to live passed", _ttl_passed, lambda s, o: DeleteEpisode()),
    Row(
        "finished, time to live runs",
        lambda s, o: o.status.finished and _ttl_end(s, o) is not None,
        lambda s, o: Wait(_ttl_end(s, o)),
    ),
    Row("finished", lambda s, o: o.status.finished, lambda s, o: Done()),
    Row(
        "result written, pods left",
        lambda s, o: o.published and o.stale_pods,
        lambda s, o: DeletePods(),
    ),
    Row(
        "result written, not distilled",
        lambda s, o: o.published and not o.distilled,
        lambda s, o: Distill(),
    ),
    Row("result written", lambda s, o: o.published, lambda s, o: Finish()),
    Row(
        "result was written, and deleted",
        lambda s, o: o.status.result_name is not None,
        lambda s, o: FinishWithoutResult(),
    ),
    Row("episode deadline passed", _overdue, _publish_overdue),
    Row("attempt failed", lambda s, o: attempt_failure(s, o) is not None, _failed),
    Row("attempt scored", lambda s, o: o.outcome is not None, _scored),
    Row("pods of earlier attempts", lambda s, o: o.stale_pods, lambda s, o: DeletePods()),
    Row("pause before the next attempt", _pausing, _wait_for_retry),
    Row("no pod", lambda s, o: o.pod is None, lambda s, o: CreatePod()),
    Row("pod not recorded", lambda s, o: o.status.pod_uid is None, _with_pod(RecordPod)),
    Row("pod held up", _untold, _with_pod(lambda pod: TellWaiting(pod.waiting))),
    Row(
        "pod starting",
        lambda s, o: o.pod is not None and not o.pod.running,
        _wait_for_start,
    ),
    Row("pod runs, nobody drives it", lambda s, o: not o.driving, _with_pod(Drive)),
    Row(
        "being driven",
        lambda s, o: True,
        lambda s, o: Wait(o.created + deadlines(s).episode),
    ),
)


def next_step(spec: EpisodeSpec, observed: Observed) -> Action:
    """The next step of an Episode. Pure: the same input gives the same action."""
    return next(row for row in TABLE if row.when(spec, observed)).then(spec, observed)
