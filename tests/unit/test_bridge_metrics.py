"""Metrics of the bridge: what each call counts, that no value is made up, and that all are told."""

import re
from datetime import UTC, datetime
from math import inf, isnan
from pathlib import Path

from prometheus_client import REGISTRY

from episode_operator.api.distillation import DistillationState
from episode_operator.api.result import Counts, DistillationStatus
from tests.unit.records import result_spec, taught
from tests.unit.training_groups import failed, group, record, without_verdict
from trainer_bridge import metrics
from trainer_bridge.charts.base import ChartSettings
from trainer_bridge.sinks.base import Demand
from trainer_bridge.statistics.evaluation import EvaluatedTask, score
from trainer_bridge.statistics.rollouts import RolloutStatistics

PAGE = (Path(__file__).parents[2] / "docs" / "metrics-bridge.md").read_text()
FIRST_CELL = re.compile(r"^\| ([^|]+) \|", re.MULTILINE)


def value(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"trainer_bridge_{name}", labels)


def grown(name: str, before: float | None, **labels: str) -> float:
    now = value(name, **labels)
    assert now is not None
    return now - (before or 0)


def test_the_step_and_the_room_are_as_told_or_unknown() -> None:
    metrics.demanded(Demand(groups=3, step=7))
    assert (value("trainer_step"), value("trainer_room_groups")) == (7, 3)
    metrics.demanded(Demand())
    step = value("trainer_step")
    assert step is not None and isnan(step)
    assert value("trainer_room_groups") == inf


def test_groups_are_counted_by_outcome() -> None:
    count, total = "weight_staleness_steps_count", "groups_total"
    delivered = value(total, outcome="Delivered", reason="")
    unknown = value(total, outcome="Unknown", reason="")
    dropped = value(total, outcome="Dropped", reason="EqualScores")
    seen = value(count)
    metrics.delivered(group(record(), step=3), step=5)
    metrics.delivered(group(record(), step=None), step=5)
    metrics.unknown()
    metrics.dropped("EqualScores")
    assert grown(total, delivered, outcome="Delivered", reason="") == 2
    assert grown(total, unknown, outcome="Unknown", reason="") == 1
    assert grown(total, dropped, outcome="Dropped", reason="EqualScores") == 1
    assert grown(count, seen) == 1


def test_episodes_are_counted_by_verdict() -> None:
    labels = {"verdict": "Passed", "reason": "TestsPassed"}
    before = value("episodes_total", **labels)
    metrics.episode_ended(result_spec())
    assert grown("episodes_total", before, **labels) == 1


def test_an_evaluation_replaces_the_one_before_and_leaves_families_out() -> None:
    ended = value("evaluations_total")
    metrics.evaluated({"eval/pass@4": 0.5, "eval/no_verdict": 1})
    metrics.evaluated({"eval/pass_rate": 0.25, "eval/math/pass_rate": 1.0})
    assert value("evaluation", value="pass_rate") == 0.25
    assert value("evaluation", value="pass@4") is None
    [family] = [each for each in REGISTRY.collect() if each.name == "trainer_bridge_evaluation"]
    assert [sample.labels["value"] for sample in family.samples] == ["pass_rate"]
    assert grown("evaluations_total", ended) == 2


def documented(heading: str) -> set[str]:
    """The names in the first column of the tables under a heading of the page."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = FIRST_CELL.findall(section)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def check_told(names: set[str], documented_names: set[str]) -> None:
    """Every name has a row, and every row is of a name; `<...>` stands for one part of a name."""
    rows = {row: re.compile(re.sub(r"<\w+>", r"[^/]+", re.escape(row))) for row in documented_names}
    assert {
        name for name in names if not any(row.fullmatch(name) for row in rows.values())
    } == set()
    assert {
        row for row, form in rows.items() if not any(form.fullmatch(name) for name in names)
    } == set()


def test_every_chart_is_in_the_documentation() -> None:
    parts = {"correctness": 1.0, "efficiency": 1.0, "toolUse": 1.0}
    told = DistillationStatus(
        state=DistillationState.COMPLETED,
        positions=2,
        outcomes={"Scored": 1},
        completed_at=datetime(2026, 11, 30, tzinfo=UTC),
    )
    error = {"role": "tool", "name": "terminal", "content": "error: no"}
    full = record(
        reward_components=parts,
        distillation=told,
        values=taught(),
        messages=[error],
        counts=Counts(tool_errors=1),
    )
    statistics = RolloutStatistics(max_token_length=10)
    statistics.add(group(full, failed(), step=1), step=2, dropped="EqualScores")
    statistics.add_no_verdict("PodLost")
    check_told(statistics.collect().keys() | {"train/rollouts"}, documented("Charts"))


def test_every_score_of_an_evaluation_is_in_the_documentation() -> None:
    parts = {"correctness": 1.0, "efficiency": 1.0, "toolUse": 1.0}
    records = (record(reward_components=parts), without_verdict())
    values = score([EvaluatedTask("a", "", records)], k=[1]).values
    check_told(set(values), documented("Evaluation"))
    families = score([EvaluatedTask("a", "math", records)], k=[1]).values
    assert set(families) == set(values) | {name.replace("eval/", "eval/math/") for name in values}


def test_every_setting_of_the_charts_is_in_the_documentation() -> None:
    check_told(set(ChartSettings.model_fields), documented("W&B"))


def test_every_metric_is_in_the_documentation() -> None:
    names = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in REGISTRY.collect()
        if family.name.startswith("trainer_bridge_")
    }
    assert len(names) > 10
    check_told(names, {name for name in documented("Prometheus") if "bridge" in name})
