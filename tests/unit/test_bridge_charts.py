"""Charts: what W&B writes is what was logged, and nothing that it does takes the bridge down."""

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY
from pydantic import ValidationError

from tests import wandb_files
from tests.unit.training_groups import failed, group, record
from trainer_bridge.charts.base import ChartSettings, NoCharts
from trainer_bridge.charts.rollout_table import conversation_text, rows, shown
from trainer_bridge.charts.wandb_charts import WandbMissingError, open_charts, run_id
from trainer_bridge.charts.worker import Worker
from trainer_bridge.metrics import ChartError


def rollouts(folder: Path) -> Any:
    """The one table of rollouts."""
    [path] = folder.glob("wandb/offline-run-*/files/media/table/train/rollouts*.table.json")
    return json.loads(path.read_text())


def errors(cause: ChartError) -> float:
    name = "trainer_bridge_chart_errors_total"
    return REGISTRY.get_sample_value(name, {"cause": cause}) or 0


async def test_an_offline_run_of_wandb(tmp_path: Path) -> None:
    before = errors(ChartError.FAILED)
    settings = ChartSettings(
        use_wandb=True, mode="offline", dir=tmp_path, project="terminal", group="first"
    )
    charts = open_charts(settings, run="hello", uid="1")
    charts.log({"train/mean_reward": 0.5, "eval/pass@4": 0.25}, 20)
    charts.log({}, 21)
    charts.rollouts([group(record(), failed())], 20)
    charts.log({"train/mean_reward": 0.75}, 3)
    await charts.close()
    assert errors(ChartError.FAILED) == before
    first, table, last = wandb_files.history(tmp_path)
    assert first == {"train/mean_reward": 0.5, "eval/pass@4": 0.25, "trainer_step": 20}
    assert last == {"train/mean_reward": 0.75, "trainer_step": 3}
    assert table["trainer_step"] == 20
    assert table["train/rollouts/nrows"] == 1
    assert rollouts(tmp_path) == {
        "columns": ["task", "text", "score", "turns", "verdict"],
        "data": [["count", conversation_text(record().messages or []), 1.0, 2, "Passed"]],
    }
    found = wandb_files.written(tmp_path)
    [run] = [each.run for each in found if each.WhichOneof("record_type") == "run"]
    assert (run.run_id, run.display_name) == (run_id("hello", "1"), "hello")
    assert (run.project, run.run_group, run.resume) == ("terminal", "first", True)
    axes = [each.metric for each in found if each.WhichOneof("record_type") == "metric"]
    assert [(each.name, each.glob_name, each.step_metric) for each in axes] == [
        ("trainer_step", "", ""),
        ("", "*", "trainer_step"),
    ]


async def test_names_with_a_prefix_and_values_without_a_step(tmp_path: Path) -> None:
    settings = ChartSettings(use_wandb=True, mode="offline", dir=tmp_path, prefix="terminal_0")
    charts = open_charts(settings, run="hello", uid="1")
    charts.log({"train/mean_reward": 0.5}, None)
    await charts.close()
    assert list(wandb_files.history(tmp_path)) == [{"terminal_0_train/mean_reward": 0.5}]


async def test_wandb_that_refuses_is_counted_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "no key")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    before = errors(ChartError.FAILED)
    charts = open_charts(ChartSettings(use_wandb=True, dir=tmp_path), run="hello", uid="1")
    charts.log({"train/mean_reward": 0.5}, 1)
    charts.log({"train/mean_reward": 0.5}, 2)
    await charts.close()
    assert errors(ChartError.FAILED) == before + 2


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(WandbMissingError, match=r"pip install '\.\[bridge\]'"):
        open_charts(ChartSettings(use_wandb=True), run="hello", uid="1")
    assert isinstance(open_charts(ChartSettings(), run="hello", uid="1"), NoCharts)


def test_settings_with_a_typo_are_refused() -> None:
    with pytest.raises(ValidationError, match="use_wandbb"):
        ChartSettings.model_validate({"use_wandbb": True})


def test_the_run_of_wandb_is_the_same_after_a_restart_and_another_for_another_run() -> None:
    assert run_id("hello", "1") == run_id("hello", "1")
    assert len({run_id("hello", "1"), run_id("hello", "2"), run_id("other", "1")}) == 3


async def test_jobs_run_in_order_and_one_that_fails_stops_no_other() -> None:
    before, done = errors(ChartError.FAILED), []

    def fail() -> None:
        raise RuntimeError("no")

    worker = Worker("test", most_waiting=3)
    for job in (lambda: done.append(1), fail, lambda: done.append(2)):
        worker.submit(job)
    await worker.close(lambda: done.append(3), within=60)
    assert done == [1, 2, 3]
    assert errors(ChartError.FAILED) == before + 1


async def test_jobs_beyond_the_queue_are_counted_and_never_waited_for() -> None:
    before, done = errors(ChartError.QUEUE_FULL), []
    began, go_on = threading.Event(), threading.Event()

    def block() -> None:
        began.set()
        go_on.wait()

    worker = Worker("test", most_waiting=1)
    worker.submit(block)
    assert began.wait(60)
    worker.submit(lambda: done.append(1))
    worker.submit(lambda: done.append(2))
    assert errors(ChartError.QUEUE_FULL) == before + 1
    go_on.set()
    await worker.close(lambda: done.append(3), within=60)
    assert done == [1, 3]


@pytest.mark.parametrize("most_waiting", [1, 3])
async def test_closing_gives_up_on_what_hangs(most_waiting: int) -> None:
    before, go_on = errors(ChartError.FAILED), threading.Event()
    worker = Worker("test", most_waiting=most_waiting)

    def block() -> None:
        go_on.wait()

    worker.submit(block)
    await worker.close(lambda: None, within=0.01)
    go_on.set()
    assert errors(ChartError.FAILED) == before + 1


def test_a_table_has_the_first_members_of_the_newest_groups() -> None:
    groups = [group(record(reward=number), failed()) for number in (1.0, 2.0, 3.0)]
    newest = ChartSettings(num_rollouts_to_keep=2)
    assert [row[2] for row in rows(groups, newest)] == [2.0, 3.0]
    every = ChartSettings(num_rollouts_per_group_for_logging=-1)
    assert [row[2] for row in rows(groups, every)] == [1.0, 0.0, 2.0, 0.0, 3.0, 0.0]
    assert rows(groups, ChartSettings(num_rollouts_to_keep=0)) == []


def test_a_conversation_as_text() -> None:
    call = {"function": {"name": "terminal", "arguments": '{"command": "ls"}'}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "list"},
        {"role": "assistant", "reasoning": "Look.", "content": None, "tool_calls": [call]},
        {"role": "tool", "name": "terminal", "content": "a b"},
    ]
    assert conversation_text(messages) == (
        '[user]\nlist\n[assistant]\nLook.\n-> terminal({"command": "ls"})\n[tool terminal]\na b'
    )


def test_control_characters_and_surrogates_are_shown_as_escapes() -> None:
    assert shown("\x1b[31mred\r\n\tend\x00 \ud800 é") == "\\x1b[31mred\\x0d\n\tend\\x00 \\ud800 é"


@given(st.text(st.characters(), max_size=40), st.integers(1, 20))
def test_any_text_can_be_shown(text: str, limit: int) -> None:
    told = shown(text, limit=limit)
    assert told.encode().decode() == told
    assert all(
        character.isprintable() or ord(character) > 159 or character in "\n\t" for character in told
    )
    if len(text) > limit:
        assert f"[{len(text) - limit} characters left out]" in told
