"""The transition table, row by row."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from episode_operator.api.episode import Condition, EpisodeStatus
from episode_operator.api.reasons import NoVerdictReason, Verdict
from episode_operator.lifecycle import step
from episode_operator.lifecycle.deadlines import deadlines
from episode_operator.lifecycle.outcome import Failure, Outcome, Scored
from episode_operator.lifecycle.pods import PodView
from tests.unit.builders import spec

NOW = 1_000_000.0
LOST = Failure(NoVerdictReason.SESSION_LOST, "lost")
BROKEN = Failure(NoVerdictReason.INVALID_TASK, "bad")
OOM = Failure(NoVerdictReason.OOM_KILLED, "oom")
SCORED = Scored(Verdict.PASSED, 1.0, "Passed")
POD = PodView(
    name="hello-a0",
    uid="pod-uid",
    created=NOW - 1,
    running=True,
    failure=None,
    waiting=Failure(NoVerdictReason.START_DEADLINE_EXCEEDED, "slow"),
)
STARTING = replace(POD, running=False)
RECORDED = EpisodeStatus(pod_name="hello-a0", pod_uid="pod-uid")
DISTILLING = RECORDED.model_copy(update={"verdict": Verdict.PASSED, "result_name": "hello-result"})
FINISHED = EpisodeStatus(
    completion_time=datetime.fromtimestamp(NOW - 10, UTC),
    conditions=[
        Condition(
            type="Finished",
            status="True",
            reason="Passed",
            last_transition_time=datetime.fromtimestamp(NOW - 10, UTC),
        )
    ],
)


def retrying(at: float) -> EpisodeStatus:
    return EpisodeStatus(attempt=1, retry_time=datetime.fromtimestamp(at, UTC))


def observed(**changes: Any) -> step.Observed:
    return replace(step.Observed(now=NOW, created=NOW - 5, status=EpisodeStatus()), **changes)


@pytest.mark.parametrize(
    ("name", "seen", "action"),
    [
        ("new", observed(), step.CreatePod()),
        (
            "pause before a retry",
            observed(status=retrying(NOW + 9)),
            step.Wait(NOW + 9),
        ),
        (
            "the pause never outlasts the Episode",
            observed(
                created=NOW - 7195,
                status=retrying(NOW + 9),
            ),
            step.Wait(NOW + 5),
        ),
        (
            "the pause is over",
            observed(status=retrying(NOW)),
            step.CreatePod(),
        ),
        (
            "pods of the failed attempt go before the pause",
            observed(
                stale_pods=True,
                status=retrying(NOW + 9),
            ),
            step.DeletePods(),
        ),
        ("earlier pod left", observed(stale_pods=True), step.DeletePods()),
        ("created, not recorded", observed(pod=POD), step.RecordPod(POD)),
        ("recorded, nobody drives", observed(pod=POD, status=RECORDED), step.Drive(POD)),
        (
            "scored",
            observed(pod=POD, status=RECORDED, outcome=Outcome(SCORED)),
            step.Publish(Outcome(SCORED)),
        ),
        (
            "scored although the pod died afterwards",
            observed(pod=replace(POD, failure=OOM), status=RECORDED, outcome=Outcome(SCORED)),
            step.Publish(Outcome(SCORED)),
        ),
        (
            "the pod's own reason beats the session's",
            observed(pod=replace(POD, failure=OOM), status=RECORDED, outcome=Outcome(LOST)),
            step.NextAttempt(OOM),
        ),
        (
            "a failure that no retry cures",
            observed(pod=POD, status=RECORDED, outcome=Outcome(BROKEN)),
            step.Publish(Outcome(BROKEN)),
        ),
        (
            "retries used up",
            observed(
                pod=POD, status=RECORDED.model_copy(update={"attempt": 2}), outcome=Outcome(LOST)
            ),
            step.Publish(Outcome(LOST)),
        ),
        (
            "published, to be distilled",
            observed(status=RECORDED, published=True),
            step.Distill(),
        ),
        (
            "published, nothing to distil",
            observed(status=RECORDED, published=True, distilled=True),
            step.Finish(),
        ),
        (
            "no deadline cuts a distillation off: the verdict is known",
            observed(created=NOW - 10**6, published=True),
            step.Distill(),
        ),
        ("published, pods left", observed(published=True, stale_pods=True), step.DeletePods()),
        (
            "published, deleted before it was distilled",
            observed(created=NOW - 10**6, status=DISTILLING),
            step.FinishWithoutResult(),
        ),
        (
            "published, deleted, and the pod is there again",
            observed(pod=POD, status=DISTILLING),
            step.FinishWithoutResult(),
        ),
        ("still being distilled", observed(status=DISTILLING, published=True), step.Distill()),
        (
            "finished, its result deleted",
            observed(status=FINISHED.model_copy(update={"result_name": "hello-result"})),
            step.Done(),
        ),
        ("finished", observed(status=FINISHED), step.Done()),
    ],
)
def test_table(name: str, seen: step.Observed, action: step.Action) -> None:
    assert step.next_step(spec(), seen) == action, name


def test_a_recorded_pod_that_is_gone_is_lost_and_retried() -> None:
    action = step.next_step(spec(), observed(status=RECORDED))
    assert isinstance(action, step.NextAttempt)
    assert action.failure.reason is NoVerdictReason.POD_LOST
    assert "pod-uid" in action.failure.message


def test_a_pod_of_the_same_name_with_another_uid_is_not_ours() -> None:
    action = step.next_step(spec(), observed(pod=replace(POD, uid="other"), status=RECORDED))
    assert isinstance(action, step.NextAttempt)
    assert action.failure.reason is NoVerdictReason.POD_LOST


def test_the_start_deadline_gives_what_the_pod_waited_for() -> None:
    late = replace(STARTING, created=NOW - deadlines(spec()).start)
    action = step.next_step(spec(), observed(pod=late, status=RECORDED))
    assert action == step.NextAttempt(late.waiting)


def test_a_failing_pull_ends_inside_the_start_deadline() -> None:
    pulling = replace(
        STARTING,
        created=NOW - deadlines(spec()).start / 2,
        waiting=Failure(NoVerdictReason.IMAGE_PULL_FAILED, "timeout"),
    )
    assert step.next_step(spec(), observed(pod=pulling, status=RECORDED)) == step.NextAttempt(
        pulling.waiting
    )


def test_a_starting_pod_is_waited_for() -> None:
    action = step.next_step(spec(), observed(pod=STARTING, status=RECORDED))
    assert isinstance(action, step.Wait)
    assert action.until is not None
    assert NOW < action.until <= STARTING.created + deadlines(spec()).start


def sandbox_not_ready(reason: str) -> EpisodeStatus:
    condition = Condition(
        type="SandboxReady",
        status="False",
        reason=reason,
        last_transition_time=datetime.fromtimestamp(NOW - 1, UTC),
    )
    return RECORDED.model_copy(update={"conditions": [condition]})


@pytest.mark.parametrize(
    "reason", [NoVerdictReason.IMAGE_PULL_FAILED, NoVerdictReason.UNSCHEDULABLE]
)
def test_what_holds_a_pod_up_is_told_once(reason: NoVerdictReason) -> None:
    held_up = replace(STARTING, waiting=Failure(reason, "why"))
    seen = observed(pod=held_up, status=sandbox_not_ready("Starting"))
    assert step.next_step(spec(), seen) == step.TellWaiting(held_up.waiting)
    told = replace(seen, status=sandbox_not_ready(reason))
    assert isinstance(step.next_step(spec(), told), step.Wait)
    again = replace(told, pod=replace(held_up, waiting=Failure(reason, "why, in other words")))
    assert isinstance(step.next_step(spec(), again), step.Wait)


def test_a_pod_that_runs_is_held_up_by_nothing() -> None:
    pod = replace(POD, waiting=Failure(NoVerdictReason.IMAGE_PULL_FAILED, "before"))
    seen = observed(pod=pod, status=sandbox_not_ready("Starting"))
    assert step.next_step(spec(), seen) == step.Drive(pod)


def test_the_episode_deadline_is_no_verdict_with_the_cause() -> None:
    seen = observed(
        created=NOW - deadlines(spec()).episode, pod=POD, status=RECORDED, outcome=Outcome(LOST)
    )
    action = step.next_step(spec(), seen)
    assert isinstance(action, step.Publish)
    assert isinstance(action.outcome.end, Failure)
    assert action.outcome.end.reason is NoVerdictReason.DEADLINE_EXCEEDED
    assert "SessionLost" in action.outcome.end.message


def test_a_score_in_hand_beats_the_episode_deadline() -> None:
    seen = observed(
        created=NOW - deadlines(spec()).episode - 1,
        pod=POD,
        status=RECORDED,
        outcome=Outcome(SCORED),
    )
    assert step.next_step(spec(), seen) == step.Publish(Outcome(SCORED))


@pytest.mark.parametrize(("ttl", "deleted"), [(5, True), (10, True), (11, False)])
def test_time_to_live(ttl: int, deleted: bool) -> None:
    action = step.next_step(spec(ttlSecondsAfterFinished=ttl), observed(status=FINISHED))
    assert isinstance(action, step.DeleteEpisode) is deleted
    if not deleted:
        assert action == step.Wait(NOW - 10 + ttl)


def test_deadlines_nest() -> None:
    made = spec(task={"image": "i", "instruction": "x", "setup": {"script": "true"}})
    limits = deadlines(made)
    assert limits.tool < made.agent.timeout_seconds
    inside = limits.start + 300 + made.agent.timeout_seconds + made.plan[0].verifier.timeout_seconds
    assert inside < limits.pod
