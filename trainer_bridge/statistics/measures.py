"""What statistics keep of one Episode with a verdict: numbers, without its arrays."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from episode_operator.api.distillation import DistillationState, TurnOutcome
from episode_operator.api.reasons import AgentEnd, Verdict
from episode_operator.results.record import EpisodeRecord
from trainer_bridge.training import TrainingGroup

COMPONENTS: Final = {
    "correctness": "mean_correctness",
    "efficiency": "mean_efficiency",
    "toolUse": "mean_tool_usage",
}
"""Reward component of testCode -> its name in charts."""

UNKNOWN_TOOL: Final = "unknown_tool"
"""What errors of tools that do not exist are counted under: models make up endless names."""

_TOOL_ERROR = "error: "
_NO_SUCH_TOOL = "error: there is no tool "


class NotMeasuredError(ValueError):
    """An Episode without a verdict: there is nothing to measure, and no 0 stands for it."""


@dataclass(frozen=True, slots=True)
class Distilled:
    """What distillation made of an Episode.

    Attributes:
        state: how it ended.
        hints: turns with a hint.
        outcomes: number of turns by outcome.
        positions: scored positions.
        advantage_sum: sum of A_t (teacher's minus student's logprob, in nats) over them.
    """

    state: DistillationState
    hints: int
    outcomes: dict[str, int]
    positions: int
    advantage_sum: float

    @property
    def turns_scored(self) -> int:
        """Turns that the teacher scored."""
        return self.outcomes.get(TurnOutcome.SCORED, 0)


@dataclass(frozen=True, slots=True)
class Measures:
    """One Episode with a verdict.

    Attributes:
        passed: whether the verdict is Passed.
        natural_finish: whether the agent stopped of its own; None where no end is recorded.
        completion_length: tokens that the model sampled; None without a row.
        errors_by_tool: tool errors by the tool's name; None where the conversation does not show
            exactly as many as were counted.
        weight_versions: different weights that sampled it; None where the server names none.
        distilled: None where no distillation was asked for.
    """

    reward: float
    reward_components: dict[str, float]
    passed: bool
    turns: int
    natural_finish: bool | None
    completion_length: int | None
    tool_errors: int
    errors_by_tool: dict[str, int] | None
    image: str
    weight_versions: int | None
    distilled: Distilled | None


def measured(record: EpisodeRecord) -> Measures:
    """The measures of a record.

    Raises:
        NotMeasuredError: it has no verdict.
    """
    spec = record.result.spec
    if spec.verdict is Verdict.NO_VERDICT or spec.reward is None:
        raise NotMeasuredError(
            f"{spec.episode.name} has no verdict ({spec.reason}); count it with add_no_verdict"
        )
    return Measures(
        reward=spec.reward,
        reward_components=dict(spec.reward_components),
        passed=spec.verdict is Verdict.PASSED,
        turns=spec.counts.turns,
        natural_finish=(
            None if spec.agent_end is None else spec.agent_end == AgentEnd.NATURAL_FINISH
        ),
        completion_length=None if record.row is None else int(record.row.mask.sum()),
        tool_errors=spec.counts.tool_errors,
        errors_by_tool=_errors_by_tool(record.messages or [], spec.counts.tool_errors),
        image=spec.image,
        weight_versions=_weight_versions(record),
        distilled=_distilled(record),
    )


def staleness(group: TrainingGroup, step: int | None) -> int | None:
    """Steps of the trainer since the group was started; None where it counts none.

    None too where its step went back, as after a restart: how old the weights are is not known.
    """
    if step is None or group.step is None or step < group.step:
        return None
    return step - group.step


def _errors_by_tool(messages: Sequence[dict[str, Any]], counted: int) -> dict[str, int] | None:
    """An answer of a tool may begin like an error: only a total that is the counted one is sure."""
    errors = Counter(
        UNKNOWN_TOOL if message["content"].startswith(_NO_SUCH_TOOL) else message["name"]
        for message in messages
        if message.get("role") == "tool"
        and "name" in message  # calls that could not be read are no calls, and name no tool
        and str(message.get("content")).startswith(_TOOL_ERROR)
    )
    return dict(errors) if errors.total() == counted else None


def _weight_versions(record: EpisodeRecord) -> int | None:
    if record.row is None or record.versions is None:
        return None
    sampled = record.versions[record.row.mask]
    return np.unique(sampled[sampled != ""]).size or None


def _distilled(record: EpisodeRecord) -> Distilled | None:
    told = record.result.status.distillation
    if told is None:
        return None
    advantages = np.empty(0, dtype=np.float32)
    if record.distillation is not None and record.row is not None:
        advantages = record.distillation.advantages(record.row)
    return Distilled(
        state=told.state,
        hints=told.hints,
        outcomes=dict(told.outcomes),
        positions=advantages.size,
        advantage_sum=float(advantages.sum(dtype=np.float64)),
    )
