"""Scores of an evaluation, against the definition of pass@k, and the files they are kept in."""

import json
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episode_operator.api.result import Counts
from episode_operator.results.record import EpisodeRecord
from tests.unit.training_groups import failed, record, without_verdict
from trainer_bridge.statistics import evaluation_files
from trainer_bridge.statistics.evaluation import EvaluatedTask, pass_at_k, score
from trainer_bridge.statistics.evaluation_files import (
    EvaluationDetails,
    EvaluationExistsError,
    EvaluationUnreadableError,
)

STARTED = datetime(2026, 11, 30, 12, tzinfo=UTC)
DETAILS = EvaluationDetails(
    name="held_out",
    model="policy",
    generation_parameters={"temperature": 1.0},
    started_at=STARTED,
    finished_at=STARTED + timedelta(seconds=90),
)


def task(name: str, *records: EpisodeRecord, family: str = "") -> EvaluatedTask:
    return EvaluatedTask(name, family, records)


@st.composite
def tries(draw: st.DrawFn) -> tuple[list[bool], int]:
    passed = draw(st.lists(st.booleans(), min_size=1, max_size=8))
    return passed, draw(st.integers(1, len(passed)))


@given(tries())
def test_pass_at_k_is_the_share_of_draws_with_a_pass(drawn: tuple[list[bool], int]) -> None:
    passed, k = drawn
    draws = [any(chosen) for chosen in combinations(passed, k)]
    assert pass_at_k(len(passed), sum(passed), k) == pytest.approx(
        float(Fraction(sum(draws), len(draws)))
    )


@pytest.mark.parametrize(("tried", "passed", "k"), [(2, 1, 3), (2, 1, 0), (2, 3, 1), (2, -1, 1)])
def test_pass_at_k_of_impossible_numbers_is_refused(tried: int, passed: int, k: int) -> None:
    with pytest.raises(ValueError, match="pass@"):
        pass_at_k(tried, passed, k)


@given(
    st.lists(st.lists(st.sampled_from("PFN"), max_size=5), min_size=1, max_size=4),
    st.integers(1, 4),
)
def test_scores_of_any_evaluation(outcomes: list[list[str]], k: int) -> None:
    made = {"P": record(), "F": failed(), "N": without_verdict()}
    tasks = [
        task(f"task-{number}", *(made[outcome] for outcome in of_task))
        for number, of_task in enumerate(outcomes)
    ]
    values = score(tasks, k=[k]).values
    told = [[outcome == "P" for outcome in of_task if outcome != "N"] for of_task in outcomes]
    scored = [each for each in told if each]
    enough = [each for each in told if len(each) >= k]
    assert values["eval/num_tasks"] == len(scored)
    assert values["eval/no_verdict"] == sum(of_task.count("N") for of_task in outcomes)
    if scored:
        rate = sum(sum(each) / len(each) for each in scored) / len(scored)
        assert values["eval/pass_rate"] == pytest.approx(rate)
        assert values["eval/avg_reward"] == pytest.approx(rate)
    else:
        assert values.keys() == {"eval/num_tasks", "eval/no_verdict"}
    if enough:
        chances = [
            sum(any(chosen) for chosen in combinations(each, k))
            / sum(1 for _ in combinations(each, k))
            for each in enough
        ]
        assert values[f"eval/pass@{k}"] == pytest.approx(sum(chances) / len(chances))
    else:
        assert f"eval/pass@{k}" not in values


def test_nothing_is_made_up() -> None:
    report = score([], k=[1])
    assert report.values == {}
    assert report.to_json() == {"values": {}, "unscored": [], "tasks": []}


def test_turns_and_natural_finishes_are_means_over_tasks() -> None:
    report = score(
        [
            task(
                "many",
                record(counts=Counts(turns=2)),
                failed(counts=Counts(turns=4), agent_end="MaxTurns"),
                without_verdict(counts=Counts(turns=99)),
            ),
            task("one", record(counts=Counts(turns=9))),
        ]
    )
    assert report.values["eval/avg_turns"] == 6
    assert report.values["eval/natural_finish_rate"] == 0.75
    assert report.values["eval/mean_correctness"] == 1


def test_tries_without_a_record_have_no_verdict() -> None:
    report = score(
        [EvaluatedTask("a", "", (record(),), unrecorded=2), EvaluatedTask("b", "", (), 1)]
    )
    assert report.values["eval/no_verdict"] == 3
    assert report.values["eval/pass_rate"] == 1
    assert report.unscored == ("b",)
    assert [each.no_verdict for each in report.tasks] == [2, 1]


def test_families_are_scored_apart_and_tasks_without_verdict_are_listed() -> None:
    report = score(
        [
            task("a", record(), family="math"),
            task("b", failed(), family="text"),
            task("c", without_verdict(), family="text"),
            task("d", record()),
        ],
        k=[1],
    )
    assert report.unscored == ("c",)
    assert report.values["eval/pass_rate"] == pytest.approx(2 / 3)
    assert report.values["eval/math/pass_rate"] == 1
    assert report.values["eval/math/pass@1"] == 1
    assert report.values["eval/text/pass_rate"] == 0
    assert report.values["eval/text/num_tasks"] == 1
    assert report.values["eval/text/no_verdict"] == 1
    assert report.to_json()["unscored"] == ["c"]
    assert [each.avg_reward for each in report.tasks] == [1, 0, None, 1]


def test_files(tmp_path: Path) -> None:
    tasks = [task("a", record(), without_verdict(), family="math"), task("b", failed())]
    report = score(tasks)
    evaluation_files.write(tmp_path / "eval" / "step-500", report, tasks, DETAILS)
    metrics = json.loads((tmp_path / "eval" / "step-500" / "metrics.json").read_text())
    assert metrics["config_general"] == {
        "model_name": "policy",
        "total_evaluation_time_seconds": "90.0",
        "generation_parameters": {"temperature": 1.0},
    }
    assert metrics["results"] == {"atropos|held_out|0": report.values, "all": report.values}
    assert metrics["report"] == report.to_json()
    lines = (tmp_path / "eval" / "step-500" / "samples.jsonl").read_text().splitlines()
    samples = [json.loads(line) for line in lines]
    assert [(each["task"], each["verdict"], each["reward"]) for each in samples] == [
        ("a", "Passed", 1.0),
        ("a", "NoVerdict", None),
        ("b", "Failed", 0.0),
    ]
    assert samples[0]["messages"] == record().messages
    assert [path.name for path in (tmp_path / "eval").iterdir()] == ["step-500"]


def test_a_written_report_is_read_back(tmp_path: Path) -> None:
    tasks = [task("a", record(), without_verdict(), family="math"), task("b")]
    report = score(tasks, k=[1])
    evaluation_files.write(tmp_path / "step-500", report, tasks, DETAILS)
    assert evaluation_files.read(tmp_path / "step-500") == report
    assert evaluation_files.read(tmp_path / "step-1000") is None


@pytest.mark.parametrize("text", [None, "", "{}", "[]", '{"report": {"values": {}, "tasks": [1]}}'])
def test_a_folder_of_something_else_is_told(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "metrics.json").write_text(text)
    with pytest.raises(EvaluationUnreadableError, match="move it away"):
        evaluation_files.read(tmp_path)


def test_an_evaluation_is_never_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "step-500"
    evaluation_files.write(folder, score([]), [], DETAILS)
    before = (folder / "metrics.json").read_bytes()
    tasks = [task("a", record())]
    with pytest.raises(EvaluationExistsError, match="delete it to evaluate again"):
        evaluation_files.write(folder, score(tasks), tasks, DETAILS)
    assert (folder / "metrics.json").read_bytes() == before


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    tasks = [task("a", record(), record(messages=[{"role": "user", "content": object()}]))]
    with pytest.raises(TypeError):
        evaluation_files.write(tmp_path / "step-500", score(tasks), tasks, DETAILS)
    assert list(tmp_path.iterdir()) == []
