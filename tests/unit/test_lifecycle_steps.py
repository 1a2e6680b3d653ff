"""The rewards of a task's steps."""

from typing import Any

import pytest

from episode_operator.api.reasons import Verdict
from episode_operator.api.step import Step, StepReward
from episode_operator.lifecycle.deadlines import backoff_seconds, deadlines
from episode_operator.lifecycle.outcome import Scored
from episode_operator.lifecycle.steps import StepEnd, combine, shortfall
from tests.unit.builders import spec


def make_step(name: str, **more: Any) -> Step:
    value = {"name": name, "instruction": "go", "verifier": {"testScript": {"script": "true"}}}
    return Step.model_validate({**value, **more})


def end(step: Step, reward: float, **components: float) -> StepEnd:
    verdict = Verdict.PASSED if reward >= 1 else Verdict.FAILED
    reason = "TestsPassed" if reward >= 1 else "TestsFailed"
    return StepEnd(step, Scored(verdict, reward, reason, components=components))


ONE, TWO, THREE = (make_step(name) for name in ("one", "two", "three"))
PLAN = (ONE, TWO, THREE)


def test_an_episode_without_steps_keeps_its_score() -> None:
    made = spec()
    scored = Scored(Verdict.PASSED, 1.0, "TestsPassed", "m", {"reward": 1.0})
    assert combine(made.plan, [StepEnd(made.plan[0], scored)], made.step_reward) is scored


def test_the_mean_is_of_the_steps_reached_and_a_missing_component_is_0() -> None:
    ends = [end(ONE, 1.0, style=0.5), end(TWO, 0.5)]
    whole = combine(PLAN, ends, StepReward.MEAN)
    assert (whole.reward, whole.components) == (0.75, {"style": 0.25})
    assert whole.verdict is Verdict.FAILED
    assert "2 of 3 steps: one 1, two 0.5" in whole.message


@pytest.mark.parametrize("strategy", StepReward)
def test_all_passed_is_passed(strategy: StepReward) -> None:
    whole = combine(PLAN, [end(step, 1.0) for step in PLAN], strategy)
    assert (whole.verdict, whole.reward, whole.reason) == (Verdict.PASSED, 1.0, "TestsPassed")


def test_final_is_the_last_step_reached() -> None:
    whole = combine(PLAN, [end(ONE, 0.0), end(TWO, 0.5), end(THREE, 1.0)], StepReward.FINAL)
    assert (whole.verdict, whole.reward) == (Verdict.PASSED, 1.0)
    stopped = combine(PLAN, [end(ONE, 1.0)], StepReward.FINAL)
    assert (stopped.verdict, stopped.reward) == (Verdict.FAILED, 1.0)


@pytest.mark.parametrize(
    ("least", "reward", "components", "reason"),
    [
        ({}, 0.0, {}, None),
        ({"reward": 0.5}, 0.5, {}, None),
        ({"reward": 0.5}, 0.4, {}, "step one has reward 0.4, below 0.5"),
        ({"style": 1.0}, 1.0, {"style": 1.0}, None),
        ({"style": 1.0}, 1.0, {}, "step one has no style, and needs at least 1"),
    ],
)
def test_a_reward_below_its_least_ends_the_walk(
    least: dict[str, float], reward: float, components: dict[str, float], reason: str | None
) -> None:
    step = make_step("one", minReward=least)
    assert shortfall(end(step, reward, **components)) == reason


def test_the_pod_outlives_all_steps() -> None:
    steps = [ONE.to_api(), make_step("two", agentTimeoutSeconds=7).to_api()]
    made = spec(verifier=None, steps=steps, agent={"kind": "Scripted", "toolTimeoutSeconds": 20})
    limits = deadlines(made)
    assert limits.pod > 2 * 600 + 1800 + 7
    assert limits.tool == 7


def test_the_pause_is_doubled_up_to_five_minutes() -> None:
    pauses = [backoff_seconds(attempt, first=10) for attempt in range(7)]
    assert pauses == [10, 20, 40, 80, 160, 300, 300]
