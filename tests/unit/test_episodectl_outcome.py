"""What a golden scan says: pass, fail, or ERR, which never comes with a number."""

from typing import Any

import pytest

from episode_operator.api.episode import Episode
from episodectl.outcome import Mark, Outcome, judge
from episodectl.report import line
from tests.unit import builders
from trainer_bridge.harness import HarnessError, checked


def finished(**status: Any) -> Episode:
    return Episode.model_validate(
        {
            **builders.episode().model_dump(by_alias=True),
            "status": {"completionTime": "2026-11-29T10:00:12Z", **status},
        }
    )


def result(**spec: Any) -> dict[str, Any]:
    value = {
        "episode": {"name": "hello", "uid": builders.UID},
        "verdict": "Passed",
        "reason": "TestsPassed",
        "message": "test.sh wrote reward 1",
        "reward": 1.0,
        "harness": "testScript",
        "agentKind": "Oracle",
        "image": "x",
        "startedAt": builders.CREATED,
        "finishedAt": builders.CREATED,
        **spec,
    }
    return {
        "metadata": {"name": "hello-0f5e2f8e"},
        "spec": {key: each for key, each in value.items() if each is not None},
    }


PASSED = finished(verdict="Passed", reward=1, reason="TestsPassed")


def test_a_pass() -> None:
    outcome = judge("hello", PASSED, result())
    assert (outcome.mark, outcome.reward, outcome.seconds) == (Mark.PASS, 1.0, 12.0)
    assert outcome.reason == "TestsPassed"


def test_a_fail_has_its_reward_and_reason() -> None:
    failed = finished(verdict="Failed", reward=0.25, reason="TestsFailed")
    stored = result(verdict="Failed", reward=0.25, reason="TestsFailed", message="reward 0.25")
    outcome = judge("hello", failed, stored)
    assert (outcome.mark, outcome.reward, outcome.message) == (Mark.FAIL, 0.25, "reward 0.25")
    assert "reward 0.25, TestsFailed: reward 0.25" in line(outcome).plain


ERRORS: dict[str, tuple[Episode, dict[str, Any] | None]] = {
    "VerifierTimeout": (
        finished(verdict="NoVerdict", reason="VerifierTimeout", message="killed after 60 s"),
        result(verdict="NoVerdict", reward=None, reason="VerifierTimeout"),
    ),
    "ResultMissing": (PASSED, None),
    "HarnessUnknown": (PASSED, result(harness=None)),
    "NoVerdict": (finished(), result()),
}


@pytest.mark.parametrize("reason", ERRORS)
def test_an_error_has_no_number(reason: str) -> None:
    episode, stored = ERRORS[reason]
    outcome = judge("hello", episode, stored)
    assert (outcome.mark, outcome.reason, outcome.reward) == (Mark.ERR, reason, None)
    assert outcome.to_json()["reward"] is None
    assert "reward" not in line(outcome).plain


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"harness": None}, "does not say which harness"),
        ({"harness": ""}, "does not say which harness"),
        ({"harness": "pytest"}, "scored by pytest, not by testScript"),
        ({"verdict": "Maybe"}, "cannot be read: spec.verdict"),
    ],
)
def test_results_that_must_be_dropped(spec: dict[str, Any], why: str) -> None:
    with pytest.raises(HarnessError, match=why):
        checked(result(**spec), builders.spec())


def test_a_result_of_the_harness_that_was_asked_for() -> None:
    assert checked(result(), builders.spec()).spec.reward == 1


def test_a_line_is_one_line() -> None:
    outcome = Outcome("a", Mark.ERR, "Unreadable", "two\nlines [bold]and markup[/]")
    assert line(outcome).plain.endswith("Unreadable: two lines [bold]and markup[/]")
