"""Curves of a run of the trainer bridge, from the results that are there."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

_POINTS = 200
_EVALUATION = re.compile(r"-eval-(?:e\d+s(?P<step>\d+)-)?")
"""What follows the run in names of evaluations; those of `serve` have the trainer's step."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One result; `created` is as the API server writes times."""

    name: str
    created: str
    group: str | None
    verdict: str
    reward: float | None
    turns: int | None
    tokens: int | None
    delivery: str | None


@dataclass(frozen=True, slots=True)
class Curve:
    """A value over the groups of a run, or over the trainer's steps.

    Attributes:
        over: what x counts.
        points: y is the mean over the groups since the point before, or over the evaluation at
            the step; what has no value adds none.
    """

    name: str
    over: str
    points: Sequence[tuple[float, float]]

    @property
    def last(self) -> float | None:
        """The newest value."""
        return self.points[-1][1] if self.points else None


@dataclass(frozen=True, slots=True)
class Run:
    """What a run's page shows."""

    groups: int
    curves: Sequence[Curve]
    delivery: Counter[str]
    verdicts: Counter[str]


_VALUES: dict[str, Callable[[Outcome], float | None]] = {
    "reward": lambda outcome: outcome.reward,
    "passed": lambda outcome: None if outcome.reward is None else outcome.verdict == "Passed",
    "without a verdict": lambda outcome: outcome.verdict == "NoVerdict",
    "turns": lambda outcome: outcome.turns,
    "tokens": lambda outcome: outcome.tokens or None,
}


def of_run(run: str, outcomes: Sequence[Outcome]) -> Run:
    """The curves over the training groups, in the order in which their first results came."""
    groups: dict[str, list[Outcome]] = {}
    evaluations: dict[int, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.group is None:
            continue
        evaluation = _EVALUATION.match(outcome.group.removeprefix(run))
        if evaluation is None:
            groups.setdefault(outcome.group, []).append(outcome)
        elif evaluation["step"]:
            evaluations.setdefault(int(evaluation["step"]), []).append(outcome)
    members = [outcome for group in groups.values() for outcome in group]
    return Run(
        groups=len(groups),
        curves=[
            *(_curve(name, value, list(groups.values())) for name, value in _VALUES.items()),
            _evaluated(evaluations),
        ],
        delivery=Counter(outcome.delivery or "Pending" for outcome in members),
        verdicts=Counter(outcome.verdict for outcome in members),
    )


def _curve(
    name: str, value: Callable[[Outcome], float | None], groups: Sequence[Sequence[Outcome]]
) -> Curve:
    width = max(1, -(-len(groups) // _POINTS))
    points = []
    for start in range(0, len(groups), width):
        part = groups[start : start + width]
        values = [found for group in part for one in group if (found := value(one)) is not None]
        if values:
            points.append((float(start + len(part)), fmean(values)))
    return Curve(name, "groups", points)


def _evaluated(evaluations: Mapping[int, Sequence[Outcome]]) -> Curve:
    """The share of held-out tries that passed, of those with a verdict."""
    points = []
    for step, outcomes in sorted(evaluations.items()):
        passed = [one.verdict == "Passed" for one in outcomes if one.reward is not None]
        if passed:
            points.append((float(step), fmean(passed)))
    return Curve("held-out passed", "steps", points)
