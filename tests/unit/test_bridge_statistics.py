"""Statistics of rollouts: right under every name, and absent where nothing was measured."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from episode_operator.agent.calls import Call, CallRunner
from episode_operator.agent.tools import Tool, ToolContext, ToolError
from episode_operator.agent.tools.base import Arguments
from episode_operator.api.distillation import DistillationState
from episode_operator.api.result import Counts, DistillationStatus, WeightSpan
from episode_operator.results.payload import TokenRow
from episode_operator.tracing import Trace
from tests.unit import records
from tests.unit.training_groups import failed, group, record, without_verdict
from trainer_bridge.statistics.measures import NotMeasuredError, measured
from trainer_bridge.statistics.rollouts import RolloutStatistics


def told(state: DistillationState, **fields: Any) -> DistillationStatus:
    at = datetime(2026, 11, 30, tzinfo=UTC)
    return DistillationStatus(state=state, completed_at=at, **fields)


def sampled(count: int) -> dict[str, Any]:
    """A row of one inserted and `count` sampled tokens, as fields of a record."""
    row = TokenRow(
        tokens=np.zeros(count + 1, dtype=np.int32),
        mask=np.array([False, *[True] * count]),
        logprobs=np.array([0, *[-0.5] * count], dtype=np.float32),
        turn=np.zeros(count + 1, dtype=np.int16),
    )
    return {
        "row": row,
        "counts": Counts(turns=1, tokens=count + 1, sampled_tokens=count),
        "weight_versions": [WeightSpan(version="step-1", start=1, end=count + 1)],
    }


def test_nothing_is_made_up() -> None:
    assert RolloutStatistics().collect() == {}


def test_collecting_begins_anew() -> None:
    statistics = RolloutStatistics()
    statistics.add(group(record(), failed()), dropped="EqualScores")
    statistics.add_no_verdict("PodLost")
    assert statistics.collect()
    assert statistics.collect() == {}


def test_rewards_are_those_of_all_members_of_dropped_groups_too() -> None:
    statistics = RolloutStatistics()
    statistics.add(group(record(reward=0.75), failed(reward=0.25)))
    statistics.add(group(failed(), failed()), dropped="EqualScores")
    values = statistics.collect()
    assert values["train/mean_reward"] == 0.25
    assert values["train/pass_rate"] == 0.25
    assert values["train/total_rollouts"] == 4
    assert values["train/items_sent_to_api"] == 1
    assert values["train/items_rejected"] == 1
    assert values["train/items_rejected_by_reason/EqualScores"] == 1
    assert values["train/equal_scores_rate"] == 0.5


def test_the_score_of_a_group_of_one_is_equal_to_no_other() -> None:
    statistics = RolloutStatistics()
    statistics.add(group(record()))
    assert "train/equal_scores_rate" not in statistics.collect()


def test_passed_is_the_verdict_not_the_reward() -> None:
    statistics = RolloutStatistics()
    statistics.add(group(record(reward=0.3), record(reward=0.3), failed(reward=0.7)))
    values = statistics.collect()
    assert values["train/pass_rate"] == values["endless_terminals/test_pass_rate"]
    assert values["train/pass_rate"] == pytest.approx(2 / 3)


def test_a_component_is_averaged_over_those_that_have_it() -> None:
    statistics = RolloutStatistics()
    composite = {"correctness": 0.8, "efficiency": 0.5, "toolUse": 0.3}
    statistics.add(group(record(reward_components=composite), record(reward_components={})))
    values = statistics.collect()
    assert values["train/mean_correctness"] == 0.8
    assert values["train/mean_efficiency"] == 0.5
    assert values["train/mean_tool_usage"] == 0.3


def test_a_member_without_verdict_is_refused_and_nothing_is_counted() -> None:
    statistics = RolloutStatistics()
    with pytest.raises(NotMeasuredError, match="hello has no verdict \\(PodLost\\)"):
        statistics.add(group(record(), without_verdict()))
    assert statistics.collect() == {}


def test_no_verdicts_are_a_share_of_all_that_ended_and_in_no_mean() -> None:
    statistics = RolloutStatistics()
    statistics.add(group(record(), record()))
    statistics.add_no_verdict("PodLost")
    statistics.add_no_verdict("Evicted")
    values = statistics.collect()
    assert values["train/no_verdict_rate"] == 0.5
    assert values["train/no_verdict_rate_by_reason/PodLost"] == 0.25
    assert values["train/no_verdict_rate_by_reason/Evicted"] == 0.25
    assert values["train/mean_reward"] == 1.0


def test_only_no_verdicts_give_no_reward() -> None:
    statistics = RolloutStatistics()
    statistics.add_no_verdict("PodLost")
    assert statistics.collect() == {
        "train/no_verdict_rate": 1.0,
        "train/no_verdict_rate_by_reason/PodLost": 1.0,
    }


def test_completion_lengths_are_of_sampled_tokens() -> None:
    statistics = RolloutStatistics(max_token_length=100)
    statistics.add(group(record(**sampled(95)), record(**sampled(97))))
    values = statistics.collect()
    assert values["train/completion_lengths"] == 96
    assert values["train/completion_lengths_std"] == 1
    assert values["train/completion_lengths_max"] == 97
    assert values["train/completion_lengths_min"] == 95
    assert values["train/completion_lengths_p95"] == 0.5


def test_without_rows_there_are_no_lengths_and_without_a_limit_no_share_of_long_ones() -> None:
    statistics = RolloutStatistics()
    statistics.add(group(record()))
    assert "train/completion_lengths_p95" not in statistics.collect()
    statistics.add(group(replace(record(), row=None, versions=None)))
    assert not [name for name in statistics.collect() if "completion" in name or "weight" in name]


@pytest.mark.parametrize(
    ("began", "now", "age"), [(3, 5, 2), (3, 3, 0), (3, 1, None), (None, 5, None), (3, None, None)]
)
def test_staleness_is_in_steps_of_the_trainer(
    began: int | None, now: int | None, age: int | None
) -> None:
    statistics = RolloutStatistics()
    statistics.add(group(record(), step=began), step=now)
    values = statistics.collect()
    assert values.get("train/staleness_steps") == age
    assert values.get("train/staleness_steps_max") == age


def test_versions_of_weights_in_a_rollout() -> None:
    unnamed = [WeightSpan(version="", start=2, end=4), WeightSpan(version="", start=5, end=6)]
    assert measured(record()).weight_versions == 2
    assert measured(record(**sampled(3))).weight_versions == 1
    assert measured(replace(record(), versions=np.full(6, ""))).weight_versions is None
    assert measured(record(weight_versions=unnamed)).weight_versions is None


def test_tasks() -> None:
    statistics = RolloutStatistics(tasks_prefix="terminal_bench")
    statistics.add(
        group(
            record(counts=Counts(turns=3, tool_errors=2), image="a"),
            failed(counts=Counts(turns=8), agent_end="MaxTurns", image="a"),
            failed(counts=Counts(turns=1), agent_end=None, image="b"),
        )
    )
    values = statistics.collect()
    tasks = {name: value for name, value in values.items() if name.startswith("terminal_bench/")}
    assert tasks == {
        "terminal_bench/test_pass_rate": pytest.approx(1 / 3),
        "terminal_bench/num_tests_passed": 1,
        "terminal_bench/num_tests_total": 3,
        "terminal_bench/avg_turns_used": 4,
        "terminal_bench/max_turns_used": 8,
        "terminal_bench/min_turns_used": 1,
        "terminal_bench/natural_finish_rate": 0.5,
        "terminal_bench/total_tool_errors": 2,
        "terminal_bench/avg_tool_errors_per_task": pytest.approx(2 / 3),
        "terminal_bench/num_unique_docker_images": 2,
    }


class Grumpy(Tool[Arguments]):
    """A tool that fails."""

    name = "grumpy"
    description = "Fails."
    arguments = Arguments

    async def run(self, context: ToolContext, arguments: Arguments) -> str:
        raise ToolError("no")


class Quoting(Grumpy):
    """A tool whose answer begins like an error, and is none."""

    name = "quoting"

    async def run(self, context: ToolContext, arguments: Arguments) -> str:
        return "error: so it says in the file"


async def answers(*tools: str) -> tuple[list[dict[str, Any]], int]:
    """What the operator answers to calls of these tools, and how many errors it counts."""
    toolbox: dict[str, Tool[Any]] = {"grumpy": Grumpy(), "quoting": Quoting()}
    runner = CallRunner(None, toolbox, None, 10, 1000, Trace())  # type: ignore[arg-type]
    answered = await runner.run(0, [Call(f"call-{i}", tool, {}) for i, tool in enumerate(tools)])
    return answered["messages"], answered["errors"]


async def test_errors_by_tool_are_read_from_the_operators_own_answers() -> None:
    messages, errors = await answers("grumpy", "made_up", "grumpy", "made_up_too")
    unread = {"role": "tool", "tool_call_id": "x", "content": "error: tool call 1 of 1 was not run"}
    found = measured(record(messages=[*messages, unread], counts=Counts(tool_errors=errors)))
    assert found.errors_by_tool == {"grumpy": 2, "unknown_tool": 2}
    statistics = RolloutStatistics()
    statistics.add(group(record(messages=messages, counts=Counts(tool_errors=errors))))
    values = statistics.collect()
    assert values["endless_terminals/errors_by_tool/grumpy"] == 2
    assert values["endless_terminals/errors_by_tool/unknown_tool"] == 2


async def test_errors_by_tool_are_left_out_where_the_answers_do_not_tell() -> None:
    messages, errors = await answers("grumpy", "quoting")
    found = measured(record(messages=messages, counts=Counts(tool_errors=errors)))
    assert errors == 1
    assert found.errors_by_tool is None


def test_distillation() -> None:
    completed = told(
        DistillationState.COMPLETED,
        hints=1,
        positions=2,
        outcomes={"Scored": 1, "NoNextState": 1},
    )
    declined = told(DistillationState.COMPLETED, outcomes={"JudgeDeclined": 3})
    statistics = RolloutStatistics()
    statistics.add(
        group(
            record(distillation=completed, values=records.taught()),
            record(distillation=declined),
            record(distillation=told(DistillationState.FAILED)),
            record(),
        )
    )
    values = statistics.collect()
    assert {name: value for name, value in values.items() if name.startswith("opd/")} == {
        "opd/distillations/Completed": 2,
        "opd/distillations/Failed": 1,
        "opd/mean_hints_per_rollout": 0.5,
        "opd/mean_turns_scored": 0.5,
        "opd/hint_rate": 0.5,
        "opd/total_hints": 1,
        "opd/total_scored_turns": 1,
        "opd/turn_outcomes/Scored": 1,
        "opd/turn_outcomes/NoNextState": 1,
        "opd/turn_outcomes/JudgeDeclined": 3,
        "opd/mean_advantage": 0.25,
    }


def test_a_failed_distillation_measures_nothing_else() -> None:
    statistics = RolloutStatistics()
    statistics.add(group(record(distillation=told(DistillationState.FAILED))))
    values = statistics.collect()
    assert [name for name in values if name.startswith("opd/")] == ["opd/distillations/Failed"]
