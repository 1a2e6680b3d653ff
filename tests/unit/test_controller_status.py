"""Status of an Episode: conditions, phase, and what a retry keeps."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from episode_operator.api.agent import AgentKind
from episode_operator.api.distillation import DistillationState
from episode_operator.api.episode import Episode, EpisodeStatus
from episode_operator.api.reasons import ConditionType, NoVerdictReason, Phase, Verdict
from episode_operator.api.result import (
    Counts,
    DistillationStatus,
    EpisodeReference,
    EpisodeResult,
    EpisodeResultSpec,
    EpisodeResultStatus,
)
from episode_operator.controller import status
from episode_operator.lifecycle.outcome import Failure
from episode_operator.lifecycle.pods import view
from tests.unit.builders import UID, container, episode, pod

NOW = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)
RUNNING = {"running": {"startedAt": "2026-11-29T10:00:02Z"}}


def condition(value: EpisodeStatus, kind: ConditionType) -> tuple[str, str, datetime]:
    found = next(c for c in value.conditions if c.type == kind)
    return found.status, found.reason, found.last_transition_time


def advance(made: Episode, value: EpisodeStatus) -> Episode:
    return made.model_copy(update={"status": value})


def result(verdict: Verdict, reward: float | None) -> EpisodeResult:
    spec = EpisodeResultSpec(
        episode=EpisodeReference(name="hello", uid=UID),
        verdict=verdict,
        reason="TestsPassed" if reward is not None else "RewardMissing",
        message="m" * 10_000,
        reward=reward,
        harness="testScript",
        agent_kind=AgentKind.ORACLE,
        image="i",
        counts=Counts(turns=2, tokens=7),
        started_at=NOW,
        finished_at=NOW,
    )
    return EpisodeResult(metadata={"name": "hello-0f5e2f8e"}, spec=spec)


def test_phases_follow_the_conditions() -> None:
    made = episode()
    phases = []
    seen = view(pod(phase="Running", containerStatuses=[container(RUNNING)]))
    steps: list[Callable[[Episode], EpisodeStatus]] = [
        lambda e: status.starting(e, "hello-a0", NOW),
        lambda e: status.ready(e, seen, NOW),
        lambda e: status.agent_completed(e, end="MaxTurns", turns=2, message="", now=NOW),
        lambda e: status.finished(e, result(Verdict.PASSED, 1.0), NOW),
    ]
    for step in steps:
        made = advance(made, step(made))
        phases.append(made.status.phase)
    assert phases == [Phase.STARTING, Phase.RUNNING, Phase.VERIFYING, Phase.FINISHED]
    assert all(c.observed_generation == 1 for c in made.status.conditions)


def test_a_condition_changes_its_time_only_with_its_value() -> None:
    made = advance(episode(), status.starting(episode(), "hello-a0", NOW))
    later = NOW + timedelta(seconds=5)
    again = status.starting(made, "hello-a0", later)
    assert condition(again, ConditionType.SANDBOX_READY)[2] == NOW
    seen = view(pod(phase="Running", containerStatuses=[container(RUNNING)]))
    ready = status.ready(advance(made, again), seen, later)
    assert condition(ready, ConditionType.SANDBOX_READY) == ("True", "Running", later)


def test_a_retry_keeps_what_happened_and_starts_afresh() -> None:
    seen = view(pod(phase="Running", containerStatuses=[container(RUNNING)]))
    made = advance(episode(), status.recorded(episode(), seen))
    made = advance(made, status.agent_completed(made, end="MaxTurns", turns=2, message="", now=NOW))
    pause = timedelta(seconds=20)
    failure = Failure(NoVerdictReason.OOM_KILLED, "memory")
    retried = status.next_attempt(made, failure, NOW, pause=pause)
    assert retried.retry_time == NOW + pause
    assert retried.attempt == 1
    assert (retried.pod_name, retried.pod_uid, retried.turns) == (None, None, None)
    (record,) = retried.attempts
    assert (record.attempt, record.pod_uid, record.reason) == (0, "pod-uid", "OOMKilled")
    assert retried.phase == Phase.STARTING
    assert {c.type for c in retried.conditions} == {ConditionType.SANDBOX_READY}


def test_no_verdict_is_failed_and_has_no_reward() -> None:
    value = status.finished(episode(), result(Verdict.NO_VERDICT, None), NOW)
    assert value.reward is None
    assert condition(value, ConditionType.FAILED)[:2] == ("True", "RewardMissing")
    assert condition(value, ConditionType.VERIFIED)[0] == "False"
    assert condition(value, ConditionType.FINISHED)[0] == "True"
    assert "reward" not in value.to_api()


def test_a_score_of_zero_is_written_out() -> None:
    value = status.finished(episode(), result(Verdict.FAILED, 0.0), NOW)
    assert value.to_api()["reward"] == 0.0
    assert condition(value, ConditionType.FAILED)[0] == "False"


def test_long_messages_are_cut_to_what_a_status_may_hold() -> None:
    value = status.finished(episode(), result(Verdict.PASSED, 1.0), NOW)
    assert value.message is not None
    assert len(value.message) == 4000


def distilled(state: DistillationState) -> EpisodeResult:
    made = result(Verdict.FAILED, 0.0)
    given = DistillationStatus(state=state, message="3 of 4 turns", completed_at=NOW)
    return made.model_copy(update={"status": EpisodeResultStatus(distillation=given)})


def test_the_verdict_is_told_before_the_distillation_ends() -> None:
    value = status.distilling(episode(), result(Verdict.FAILED, 0.0), NOW)
    assert (value.phase, value.verdict, value.reward) == (Phase.DISTILLING, Verdict.FAILED, 0.0)
    assert condition(value, ConditionType.DISTILLED)[:2] == ("False", "Distilling")
    assert not value.finished
    assert value.completion_time is None


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (DistillationState.COMPLETED, "True"),
        (DistillationState.FAILED, "False"),
        (DistillationState.SKIPPED, "False"),
    ],
)
def test_a_distillation_changes_nothing_of_the_verdict(state: DistillationState, text: str) -> None:
    made = advance(episode(), status.distilling(episode(), result(Verdict.FAILED, 0.0), NOW))
    value = status.finished(made, distilled(state), NOW)
    assert condition(value, ConditionType.DISTILLED)[:2] == (text, state)
    assert (value.finished, value.verdict, value.reward) == (True, Verdict.FAILED, 0.0)
    assert condition(value, ConditionType.FINISHED)[:2] == ("True", "TestsPassed")


def test_without_distillation_there_is_no_such_condition() -> None:
    value = status.finished(episode(), result(Verdict.PASSED, 1.0), NOW)
    assert ConditionType.DISTILLED not in {c.type for c in value.conditions}


def test_a_store_that_fails_while_distilling_leaves_the_verdict() -> None:
    made = advance(episode(), status.distilling(episode(), result(Verdict.PASSED, 1.0), NOW))
    value = status.not_stored(made, "no bucket", NOW)
    assert condition(value, ConditionType.DISTILLED)[:2] == ("False", "ResultNotStored")
    assert condition(value, ConditionType.VERIFIED)[0] == "True"
    assert value.phase is Phase.DISTILLING


def test_a_store_that_fails_before_the_result_is_written_gives_no_verdict_yet() -> None:
    waiting = status.not_stored(episode(), "s3://b/k: NoSuchBucket", NOW)
    (told,) = waiting.conditions
    assert (told.type, told.status, told.reason) == (
        ConditionType.VERIFIED,
        "False",
        "ResultNotStored",
    )
    assert "NoSuchBucket" in told.message
    assert (waiting.verdict, waiting.reward) == (None, None)
