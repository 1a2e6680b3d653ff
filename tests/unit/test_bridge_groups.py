"""What the bridge does about a group, and what the marks of a crash mean."""

import pytest

from episode_operator.api.reasons import NoVerdictReason, Verdict
from episode_operator.api.result import Delivery
from episode_operator.results.record import EpisodeRecord
from tests.unit import records
from tests.unit.training_groups import failed, group, record
from trainer_bridge.run.delivery import resolve
from trainer_bridge.run.groups import (
    EQUAL_SCORES,
    HOPELESS,
    INCOMPLETE,
    STALE,
    Complete,
    Drop,
    Ended,
    Rerun,
    Wait,
    decide,
    refusal,
)

PASSED, FAILED = Ended(Verdict.PASSED, "TestsPassed"), Ended(Verdict.FAILED, "TestsFailed")
LOST = Ended(Verdict.NO_VERDICT, NoVerdictReason.NODE_LOST, "node gone")

PENDING, SENDING, DELIVERED = Delivery.PENDING, Delivery.SENDING, Delivery.DELIVERED
UNKNOWN, DROPPED = Delivery.UNKNOWN, Delivery.DROPPED


def test_a_group_is_complete_when_each_member_has_a_verdict() -> None:
    assert decide([PASSED, None, FAILED], reruns_left=1) == Wait()
    assert decide([PASSED, FAILED, FAILED], reruns_left=0) == Complete()


def test_a_member_without_a_verdict_is_run_again_at_once_while_others_work() -> None:
    assert decide([None, LOST, PASSED], reruns_left=1) == Rerun(1, "NodeLost")


def test_without_reruns_the_group_is_dropped_whatever_the_others_are_about() -> None:
    decision = decide([None, LOST, PASSED], reruns_left=0)
    assert isinstance(decision, Drop)
    assert decision.reason == INCOMPLETE
    assert "member 1: NodeLost" in decision.message


@pytest.mark.parametrize("reason", sorted(HOPELESS))
def test_what_would_end_alike_is_not_run_again(reason: NoVerdictReason) -> None:
    decision = decide([Ended(Verdict.NO_VERDICT, reason)], reruns_left=9)
    assert isinstance(decision, Drop)


@pytest.mark.parametrize(
    ("marks", "where"),
    [
        ([None, None], PENDING),
        ([PENDING, PENDING], PENDING),
        ([SENDING, PENDING], PENDING),  # not all were marked: nothing was sent
        ([SENDING, None], PENDING),
        ([SENDING, SENDING], UNKNOWN),
        ([DELIVERED, SENDING], DELIVERED),  # the trainer had answered
        ([UNKNOWN, SENDING], UNKNOWN),
        ([DROPPED, PENDING], DROPPED),
        ([], PENDING),
    ],
)
def test_marks(marks: list[Delivery | None], where: Delivery) -> None:
    assert resolve(marks) is where


def refused(
    *members: EpisodeRecord,
    started: int | None = None,
    now: int | None = None,
    max_steps: int | None = None,
    different: bool = True,
) -> str | None:
    """The reason a group of these members is refused for, if it is."""
    found = refusal(
        group(*members, step=started), different_scores=different, step=now, max_steps=max_steps
    )
    return None if found is None else found.reason


def test_equal_scores_have_nothing_to_learn_from() -> None:
    assert refused(record(), record()) == EQUAL_SCORES
    assert refused(record(), failed()) is None
    assert refused(record(), record(), different=False) is None
    assert refused(record()) is None, "a group of one has no other to be equal to"


def test_a_teacher_makes_equal_scores_worth_keeping() -> None:
    assert refused(record(), record(values=records.taught())) is None


def test_an_old_group_is_stale() -> None:
    pair = (record(), failed())
    assert refused(*pair, started=3, now=5, max_steps=2) is None
    assert refused(*pair, started=3, now=6, max_steps=2) == STALE
    assert refused(*pair, started=3, now=600) is None
    assert refused(*pair, now=6, max_steps=2) is None
