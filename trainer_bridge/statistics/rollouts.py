"""Statistics of the rollouts between two steps; docs/metrics-bridge.md explains every name.

A value that nothing was measured for is absent. A count is 0 only where there was something to
count.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean

import numpy as np

from episode_operator.api.distillation import DistillationState
from trainer_bridge.statistics.measures import COMPONENTS, Measures, measured, staleness
from trainer_bridge.training import TrainingGroup

TASKS_PREFIX = "endless_terminals"


class RolloutStatistics:
    """Gathers finished groups, and gives one value per name for all since the last `collect`."""

    def __init__(
        self, *, max_token_length: int | None = None, tasks_prefix: str = TASKS_PREFIX
    ) -> None:
        """Start with nothing.

        Args:
            max_token_length: the trainer's longest sequence, in tokens; None without a limit.
            tasks_prefix: what the names about tasks begin with.
        """
        self._max_token_length = max_token_length
        self._tasks_prefix = tasks_prefix
        self._clear()

    def _clear(self) -> None:
        self._rollouts: list[Measures] = []
        self._delivered = 0
        self._dropped: Counter[str] = Counter()
        self._equal_scores: list[bool] = []
        self._staleness: list[int] = []
        self._no_verdicts: Counter[str] = Counter()

    def add(
        self, group: TrainingGroup, *, step: int | None = None, dropped: str | None = None
    ) -> None:
        """Count a group that is done with, once.

        Args:
            group: the group; its members count for the rewards also where it is dropped, since
                leaving out groups of equal scores would bias every mean.
            step: the trainer's step now; None where it counts none.
            dropped: why it does not get to the trainer; None where it was delivered.

        Raises:
            NotMeasuredError: a member has no verdict; nothing of the group is counted.
        """
        self._rollouts += [measured(record) for record in group.members]
        if dropped is None:
            self._delivered += 1
        else:
            self._dropped[dropped] += 1
        if len(group.members) > 1:
            self._equal_scores.append(len(set(group.scores)) == 1)
        if (age := staleness(group, step)) is not None:
            self._staleness.append(age)

    def add_no_verdict(self, reason: str) -> None:
        """Count an Episode that ended without a verdict, by its reason."""
        self._no_verdicts[reason] += 1

    def collect(self) -> dict[str, float]:
        """Name -> value, over all that was added since the last call; then begins anew."""
        values = {
            **self._groups(),
            **_completion_lengths(self._rollouts, self._max_token_length),
            **_rewards(self._rollouts),
            **_tasks(self._tasks_prefix, self._rollouts),
            **_distillation(self._rollouts),
        }
        self._clear()
        return values

    def _groups(self) -> dict[str, float]:
        values: dict[str, float] = {}
        rejected = self._dropped.total()
        if self._delivered or rejected:
            values["train/items_sent_to_api"] = self._delivered
            values["train/items_rejected"] = rejected
        for reason, count in self._dropped.items():
            values[f"train/items_rejected_by_reason/{reason}"] = count
        if self._equal_scores:
            values["train/equal_scores_rate"] = fmean(self._equal_scores)
        if self._staleness:
            values["train/staleness_steps"] = fmean(self._staleness)
            values["train/staleness_steps_max"] = max(self._staleness)
        ended = len(self._rollouts) + self._no_verdicts.total()
        if ended:
            values["train/no_verdict_rate"] = self._no_verdicts.total() / ended
        for reason, count in self._no_verdicts.items():
            values[f"train/no_verdict_rate_by_reason/{reason}"] = count / ended
        return values


def _completion_lengths(
    rollouts: Sequence[Measures], max_token_length: int | None
) -> dict[str, float]:
    lengths = [
        rollout.completion_length for rollout in rollouts if rollout.completion_length is not None
    ]
    if not lengths:
        return {}
    values = {
        "train/completion_lengths": fmean(lengths),
        "train/completion_lengths_std": float(np.std(lengths)),
        "train/completion_lengths_max": max(lengths),
        "train/completion_lengths_min": min(lengths),
    }
    if max_token_length is not None:
        long = [length > 0.95 * max_token_length for length in lengths]
        values["train/completion_lengths_p95"] = fmean(long)
    return values


def _rewards(rollouts: Sequence[Measures]) -> dict[str, float]:
    if not rollouts:
        return {}
    values = {
        "train/mean_reward": fmean(rollout.reward for rollout in rollouts),
        "train/pass_rate": fmean(rollout.passed for rollout in rollouts),
        "train/total_rollouts": len(rollouts),
    }
    for component, name in COMPONENTS.items():
        parts = [
            rollout.reward_components[component]
            for rollout in rollouts
            if component in rollout.reward_components
        ]
        if parts:
            values[f"train/{name}"] = fmean(parts)
    versions = [
        rollout.weight_versions for rollout in rollouts if rollout.weight_versions is not None
    ]
    if versions:
        values["train/weight_versions_per_rollout"] = fmean(versions)
    return values


def _tasks(prefix: str, rollouts: Sequence[Measures]) -> dict[str, float]:
    if not rollouts:
        return {}
    turns = [rollout.turns for rollout in rollouts]
    errors = sum(rollout.tool_errors for rollout in rollouts)
    values = {
        "test_pass_rate": fmean(rollout.passed for rollout in rollouts),
        "num_tests_passed": sum(rollout.passed for rollout in rollouts),
        "num_tests_total": len(rollouts),
        "avg_turns_used": fmean(turns),
        "max_turns_used": max(turns),
        "min_turns_used": min(turns),
        "total_tool_errors": errors,
        "avg_tool_errors_per_task": errors / len(rollouts),
        "num_unique_docker_images": len({rollout.image for rollout in rollouts}),
    }
    finishes = [
        rollout.natural_finish for rollout in rollouts if rollout.natural_finish is not None
    ]
    if finishes:
        values["natural_finish_rate"] = fmean(finishes)
    by_tool = _summed(rollout.errors_by_tool or {} for rollout in rollouts)
    values |= {f"errors_by_tool/{tool}": count for tool, count in by_tool.items()}
    return {f"{prefix}/{name}": value for name, value in values.items()}


def _distillation(rollouts: Sequence[Measures]) -> dict[str, float]:
    told = [rollout.distilled for rollout in rollouts if rollout.distilled is not None]
    states = Counter(str(distilled.state) for distilled in told)
    values: dict[str, float] = {
        f"opd/distillations/{state}": count for state, count in states.items()
    }
    completed = [distilled for distilled in told if distilled.state is DistillationState.COMPLETED]
    if not completed:
        return values
    hints = [distilled.hints for distilled in completed]
    scored = [distilled.turns_scored for distilled in completed]
    values |= {
        "opd/mean_hints_per_rollout": fmean(hints),
        "opd/mean_turns_scored": fmean(scored),
        "opd/hint_rate": fmean(count > 0 for count in hints),
        "opd/total_hints": sum(hints),
        "opd/total_scored_turns": sum(scored),
    }
    outcomes = _summed(distilled.outcomes for distilled in completed)
    values |= {f"opd/turn_outcomes/{outcome}": count for outcome, count in outcomes.items()}
    positions = sum(distilled.positions for distilled in completed)
    if positions:
        total = sum(distilled.advantage_sum for distilled in completed)
        values["opd/mean_advantage"] = total / positions
    return values


def _summed(counts: Iterable[dict[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total
