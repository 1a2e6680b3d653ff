"""Curves of a run of the trainer bridge, from the results that are there."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

_POINTS = 200


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
    """A value over the groups of a run.

    Attributes:
        points: x is the number of groups until then, y the mean over the groups since the point
            before; groups without a value add none.
    """

    name: str
    points: Sequence[tuple[float, float]]

    @property
    def last(self) -> float | None:
        """The newest value."""
        return self.points[-1][1] if self.points else None


@dataclass(frozen=True, slots=True)
class Run:
    """What a run's page shows."""

    groups: int
    evaluations: int
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
    evaluations = 0
    for outcome in outcomes:
        if outcome.group is None:
            continue
        if outcome.group.startswith(f"{run}-eval-"):
            evaluations += 1
        else:
            groups.setdefault(outcome.group, []).append(outcome)
    members = [outcome for group in groups.values() for outcome in group]
    return Run(
        groups=len(groups),
        evaluations=evaluations,
        curves=[_curve(name, value, list(groups.values())) for name, value in _VALUES.items()],
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
    return Curve(name, points)
