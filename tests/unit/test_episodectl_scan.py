"""The scan itself: order, how many at a time, what becomes of the others when it is stopped."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from episode_operator.api.agent import Agent, Model
from episodectl.cli import app
from episodectl.golden import scan
from episodectl.outcome import Mark, Outcome
from episodectl.report import Watch, show
from tests.unit import task_folders
from trainer_bridge.sources import Build, Task, Unreadable


class Named:
    """A task that is only a name."""

    family = ""

    def __init__(self, name: str, notes: tuple[str, ...] = ()) -> None:
        self.name = name
        self.notes = notes

    def build(self, agent: Agent, *, prefix: str, model: Model | None = None) -> Build:
        raise NotImplementedError


def unheard(_: Any) -> None:
    return None


async def test_outcomes_are_in_the_order_of_the_tasks_and_so_many_run_at_once() -> None:
    running, most = 0, 0
    gate = asyncio.Event()

    async def run(index: int, task: Task) -> Outcome:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            gate.set()
        await gate.wait()
        running -= 1
        return Outcome(task.name, Mark.PASS, f"run {index}")

    tasks: list[Task | Unreadable] = [Named(f"t{index}", ("note",)) for index in range(7)]
    tasks.insert(2, Unreadable("some/folder", "why"))
    outcomes = await scan(tasks, run, parallel=3, on_start=unheard, on_end=unheard)
    assert most == 3
    assert [o.task for o in outcomes] == ["t0", "t1", "folder", "t2", "t3", "t4", "t5", "t6"]
    assert (outcomes[2].mark, outcomes[2].message) == (Mark.ERR, "why")
    assert outcomes[3].reason == "run 3" and outcomes[3].notes == ("note",)


async def test_a_stopped_scan_lets_every_task_clean_up() -> None:
    started, cleaned = asyncio.Event(), list[str]()

    async def run(index: int, task: Task) -> Outcome:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(task.name)
        raise AssertionError("unreachable")

    scanning = asyncio.ensure_future(
        scan([Named("a"), Named("b")], run, parallel=2, on_start=unheard, on_end=unheard)
    )
    await started.wait()
    await asyncio.sleep(0)
    scanning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await scanning
    assert sorted(cleaned) == ["a", "b"]


OUTCOMES = [
    Outcome("one", Mark.PASS, "TestsPassed", reward=1.0, seconds=3.2, episode="golden-1"),
    Outcome("three", Mark.FAIL, "TestsFailed", "wrote 0", 0.0, 2.0, "golden-2", ("a note",)),
    Outcome("two", Mark.ERR, "Unreadable", "no image"),
]


def printed(*, as_json: bool) -> str:
    console = Console(width=40, no_color=True)
    with console.capture() as capture:
        show(console, OUTCOMES, as_json=as_json, seconds=9.9)
    return capture.get()


def test_the_table() -> None:
    assert printed(as_json=False).splitlines() == [
        "pass one       3 s",
        "fail three     2 s  reward 0, TestsFailed: wrote 0",
        "      note: a note",
        "ERR  two            Unreadable: no image",
        "1 pass, 1 fail, 1 ERR of 3 in 10 s",
    ]


def test_the_json() -> None:
    told = json.loads(printed(as_json=True))
    assert told["summary"] == {"pass": 1, "fail": 1, "ERR": 1}
    assert [one["reward"] for one in told["results"]] == [1.0, 0.0, None]
    assert told["results"][1]["notes"] == ["a note"]


def test_a_log_has_a_line_for_each_task_as_it_ends() -> None:
    console = Console(width=40, force_terminal=False)
    with console.capture() as capture:
        watch = Watch(console, 3)
        with watch.shown():
            watch.start("one")
            for outcome in OUTCOMES:
                watch.end(outcome)
    assert [text.split()[0] for text in capture.get().splitlines()] == ["pass", "fail", "ERR"]


def test_without_a_cluster_the_exit_code_is_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    folder = task_folders.harbor(tmp_path / "hello")
    done = CliRunner().invoke(app, ["golden", str(folder)])
    assert done.exit_code == 2
    assert "no cluster" in done.output
