"""How the rewards of a task's steps become the Episode's."""

from collections.abc import Sequence
from dataclasses import dataclass

from episode_operator.api.decisions import TESTS_FAILED, TESTS_PASSED
from episode_operator.api.reasons import Verdict
from episode_operator.api.step import Step, StepReward
from episode_operator.lifecycle.outcome import Scored


@dataclass(frozen=True, slots=True)
class StepEnd:
    """A step that was reached and scored."""

    step: Step
    scored: Scored


def shortfall(end: StepEnd) -> str | None:
    """Why the steps after this one are not run, or None when its reward suffices."""
    values = {"reward": end.scored.reward, **end.scored.components}
    for name, least in end.step.min_reward.items():
        if name not in values:
            return f"step {end.step.name} has no {name}, and needs at least {least:g}"
        if values[name] < least:
            return f"step {end.step.name} has {name} {values[name]:g}, below {least:g}"
    return None


def combine(plan: Sequence[Step], ends: Sequence[StepEnd], strategy: StepReward) -> Scored:
    """The score of the whole; `ends` are the steps reached, at least one.

    It is Passed when every step was reached and, for Mean, passed, for Final, the last one did.
    """
    if not plan[0].name:
        return ends[0].scored
    last = ends[-1].scored
    all_reached = len(ends) == len(plan)
    if strategy is StepReward.FINAL:
        reward, components = last.reward, dict(last.components)
        passed = all_reached and last.verdict is Verdict.PASSED
    else:
        reward = sum(end.scored.reward for end in ends) / len(ends)
        names = {name for end in ends for name in end.scored.components}
        components = {
            name: sum(end.scored.components.get(name, 0.0) for end in ends) / len(ends)
            for name in sorted(names)
        }
        passed = all_reached and all(end.scored.verdict is Verdict.PASSED for end in ends)
    rewards = ", ".join(f"{end.step.name} {end.scored.reward:g}" for end in ends)
    stopped = shortfall(ends[-1])
    return Scored(
        verdict=Verdict.PASSED if passed else Verdict.FAILED,
        reward=reward,
        reason=TESTS_PASSED if passed else TESTS_FAILED,
        message=f"{len(ends)} of {len(plan)} steps: {rewards}"
        + (f"; {stopped}" if stopped else ""),
        components=components,
    )
