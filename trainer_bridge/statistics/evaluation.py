"""Scores an evaluation: tasks that were each tried one or more times.

An Episode without a verdict is no failure: it is counted, and is in no mean. Every mean is of the
tasks' own means, so that a task weighs the same however many of its tries have a verdict.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import comb
from statistics import fmean
from typing import Any

from episode_operator.api.reasons import Verdict
from episode_operator.results.record import EpisodeRecord
from trainer_bridge.statistics.measures import COMPONENTS, Measures, measured


@dataclass(frozen=True, slots=True, eq=False)
class EvaluatedTask:
    """A task and all its tries.

    Attributes:
        name: name of the task.
        family: family of the task; empty where it has none.
        records: its Episodes, with and without a verdict.
        unrecorded: tries that left no record; they have no verdict either.
    """

    name: str
    family: str
    records: tuple[EpisodeRecord, ...]
    unrecorded: int = 0

    def tries(self) -> list[Measures]:
        """The measures of the tries with a verdict."""
        return [
            measured(record) for record in self.records if record.verdict is not Verdict.NO_VERDICT
        ]


@dataclass(frozen=True, slots=True)
class TaskScore:
    """What became of one task.

    Attributes:
        verdicts: tries with a verdict, n.
        passed: of these, passed ones, c.
        no_verdict: tries without one.
        avg_reward: mean reward of the tries with a verdict; None without any.
    """

    task: str
    family: str
    verdicts: int
    passed: int
    no_verdict: int
    avg_reward: float | None


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """The scores of an evaluation.

    Attributes:
        values: name -> value as in docs/metrics-bridge.md; what was not measured is absent.
        tasks: every task, in the order given.
    """

    values: dict[str, float]
    tasks: tuple[TaskScore, ...]

    @property
    def unscored(self) -> tuple[str, ...]:
        """Names of the tasks without any verdict."""
        return tuple(score.task for score in self.tasks if not score.verdicts)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON: `values`, `unscored` and `tasks`."""
        return {
            "values": dict(self.values),
            "unscored": list(self.unscored),
            "tasks": [asdict(score) for score in self.tasks],
        }

    @classmethod
    def from_json(cls, report: dict[str, Any]) -> "EvaluationReport":
        """The report that `to_json` gave."""
        return cls(report["values"], tuple(TaskScore(**score) for score in report["tasks"]))


def pass_at_k(tries: int, passed: int, k: int) -> float:
    """The chance that at least one of k tries, drawn of those made without replacement, passed.

    The unbiased estimate 1 - C(n - c, k) / C(n, k) of Chen et al., 2021 (arXiv:2107.03374).

    Raises:
        ValueError: not 1 <= k <= tries, or not 0 <= passed <= tries.
    """
    if not 1 <= k <= tries or not 0 <= passed <= tries:
        raise ValueError(f"pass@{k} of {tries} tries, {passed} of them passed")
    return 1 - comb(tries - passed, k) / comb(tries, k)


def score(tasks: Sequence[EvaluatedTask], *, k: Iterable[int] = ()) -> EvaluationReport:
    """Score an evaluation, as a whole and by family.

    Args:
        tasks: the tasks; each once, with all its tries.
        k: which pass@k to give, of the tasks with at least k verdicts.
    """
    tried = [(task, task.tries()) for task in tasks]
    wanted = sorted(set(k))
    values = _values("eval", tried, wanted)
    for family in dict.fromkeys(task.family for task in tasks if task.family):
        own = [(task, tries) for task, tries in tried if task.family == family]
        values |= _values(f"eval/{family}", own, wanted)
    return EvaluationReport(values, tuple(_task_score(task, tries) for task, tries in tried))


_Tried = Sequence[tuple[EvaluatedTask, Sequence[Measures]]]


def _values(prefix: str, tried: _Tried, wanted: Sequence[int]) -> dict[str, float]:
    if not tried:
        return {}
    scored = [tries for _, tries in tried if tries]
    values: dict[str, float | None] = {
        "num_tasks": len(scored),
        "no_verdict": sum(_no_verdicts(task, tries) for task, tries in tried),
        "pass_rate": _mean(scored, lambda each: each.passed),
        "avg_reward": _mean(scored, lambda each: each.reward),
        "avg_turns": _mean(scored, lambda each: each.turns),
        "natural_finish_rate": _mean(scored, lambda each: each.natural_finish),
    }
    for component, name in COMPONENTS.items():
        values[name] = _mean(scored, partial(_component, component))
    for k in wanted:
        enough = [
            pass_at_k(len(tries), sum(each.passed for each in tries), k)
            for tries in scored
            if len(tries) >= k
        ]
        values[f"pass@{k}"] = fmean(enough) if enough else None
    return {f"{prefix}/{name}": value for name, value in values.items() if value is not None}


def _no_verdicts(task: EvaluatedTask, tries: Sequence[Measures]) -> int:
    return len(task.records) + task.unrecorded - len(tries)


def _component(name: str, measures: Measures) -> float | None:
    return measures.reward_components.get(name)


def _mean(
    scored: Sequence[Sequence[Measures]], value: Callable[[Measures], float | None]
) -> float | None:
    """The mean over tasks of the mean over their tries; what has no value is left out."""
    by_task = [[found for each in tries if (found := value(each)) is not None] for tries in scored]
    means = [fmean(values) for values in by_task if values]
    return fmean(means) if means else None


def _task_score(task: EvaluatedTask, tries: Sequence[Measures]) -> TaskScore:
    return TaskScore(
        task=task.name,
        family=task.family,
        verdicts=len(tries),
        passed=sum(each.passed for each in tries),
        no_verdict=_no_verdicts(task, tries),
        avg_reward=fmean(each.reward for each in tries) if tries else None,
    )
