"""Names and families of tasks, and HumanEval's rows."""

import json
from pathlib import Path
from typing import Any

import pytest

from episode_operator.api.agent import Agent, AgentKind
from tests.unit import task_folders
from tests.unit.test_sources_rows import ENDLESS, OPD, found, reason, rows, task
from trainer_bridge.sources import Unreadable, humaneval

ORACLE = Agent(kind=AgentKind.ORACLE, timeout_seconds=900)
ADD = {
    "task_id": "HumanEval/7",
    "prompt": "def add(a, b):\n",
    "canonical_solution": "    return a + b\n",
    "test": "def check(f):\n    assert f(1, 2) == 3\n",
    "entry_point": "add",
}


def names(path: Path) -> list[str]:
    return [one.path if isinstance(one, Unreadable) else one.name for one in found(path)]


@pytest.mark.parametrize(
    ("task_id", "name"),
    [
        ("sort/3", "sort/3"),
        (11, "set-11"),
        ("задача 3", "задача 3"),
        ("задача", "set-1"),
        ("", "set-1"),
        (None, "set-1"),
    ],
)
def test_a_row_is_called_by_its_id_or_its_number(tmp_path: Path, task_id: Any, name: str) -> None:
    assert names(rows(tmp_path / "set.jsonl", {**OPD, "task_id": task_id})) == [name]


def test_a_name_stands_for_one_task(tmp_path: Path) -> None:
    same = {**OPD, "task_id": "same"}
    path = rows(tmp_path / "set.jsonl", same, OPD, same)
    one, two, three = found(path)
    assert not isinstance(one, Unreadable) and not isinstance(two, Unreadable)
    assert isinstance(three, Unreadable) and three.path == f"{path}:3"
    assert three.reason == f"{path}:1 has the same name, same; rename it or leave it out"


def test_an_unreadable_row_takes_no_name(tmp_path: Path) -> None:
    path = rows(tmp_path / "s.jsonl", {"task_id": "a", "test_code": "x"}, {**OPD, "task_id": "a"})
    assert names(path) == [f"{path}:1", "a"]


def test_a_name_that_is_no_unicode(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps({**OPD, "task_id": "a\ud800"}))
    assert reason(path, "i") == "the name 'a\\ud800' is not valid Unicode; rename it"


@pytest.mark.parametrize(
    ("fields", "family"),
    [
        ({}, "coding"),
        ({"difficulty": "hard"}, "hard"),
        ({"difficulty": "hard", "category": "strings"}, "strings"),
        ({"category": "strings", "family": "text"}, "text"),
        ({"category": " ", "family": None}, "coding"),
    ],
)
def test_families_of_opd_rows(tmp_path: Path, fields: dict[str, Any], family: str) -> None:
    assert task(rows(tmp_path / "a.jsonl", {**OPD, **fields}), "i").family == family


@pytest.mark.parametrize(
    ("metadata", "family"),
    [
        ('category = "security"', "security"),
        ('category = " "', "bench"),
        ("category = 3", "bench"),
        ("", "bench"),
    ],
)
def test_families_of_harbor_tasks(tmp_path: Path, metadata: str, family: str) -> None:
    toml = f"{task_folders.MINIMAL['task.toml']}[metadata]\n{metadata}\n"
    folder = task_folders.harbor(tmp_path / "bench" / "hello", toml)
    assert task(folder).family == family


def test_families_of_endless_terminals(tmp_path: Path) -> None:
    described = {**ENDLESS, "environment/task.json": json.dumps({"category": "logs"})}
    task_folders.write(tmp_path / "plain", ENDLESS)
    task_folders.write(tmp_path / "described", described)
    task_folders.write(tmp_path / "other", {**ENDLESS, "environment/task.json": '{"category": 1}'})
    assert task(tmp_path / "plain").family == "endless-terminals"
    assert task(tmp_path / "described").family == "logs"
    assert task(tmp_path / "other").family == "endless-terminals"
    row = {"extra_info": {"task_dir": "described"}, "category": "git"}
    assert task(rows(tmp_path / "rows.jsonl", row)).family == "git"


@pytest.mark.parametrize("content", ["{", "[]", "[" * 100_000])
def test_a_broken_task_json(tmp_path: Path, content: str) -> None:
    folder = task_folders.write(tmp_path / "t", {**ENDLESS, "environment/task.json": content})
    assert reason(folder).startswith("environment/task.json is not ")


def test_a_humaneval_row(tmp_path: Path) -> None:
    one = task(rows(tmp_path / "a.jsonl", ADD), "registry.test/{name}")
    made = one.build(ORACLE, prefix="t").spec
    assert (one.name, one.family) == ("humaneval-7", "humaneval")
    assert made.task.image == "registry.test/humaneval-7"
    assert ADD["prompt"] in (made.task.instruction or "")
    assert made.task.solution is not None
    assert made.task.solution.files[0].content == "def add(a, b):\n    return a + b\n"
    assert made.verifier is not None and made.verifier.test_code is not None
    assert made.verifier.test_code.code.endswith("check(add)\nprint('All tests passed')\n")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"entry_point": "f; x"}, "the row's entry_point 'f; x' is no name of a function"),
        ({"canonical_solution": None}, "the row has no text in its field `canonical_solution`"),
        ({"task_id": 7}, "the row's field `task_id` is not text"),
        ({"test": None}, "no kind of row is known with the fields task_id, prompt"),
    ],
)
def test_humaneval_rows_that_cannot_be_read(
    tmp_path: Path, fields: dict[str, Any], why: str
) -> None:
    assert reason(rows(tmp_path / "a.jsonl", {**ADD, **fields}), "i").startswith(why)


def test_a_row_is_the_same_task_as_the_packages_problem(tmp_path: Path) -> None:
    problem = humaneval.problems()[0]
    row = {
        "task_id": "HumanEval/0",
        "prompt": problem.prompt,
        "canonical_solution": problem.code.removeprefix(problem.prompt),
        "test": problem.test,
        "entry_point": problem.entry_point,
    }
    one = task(rows(tmp_path / "a.jsonl", row), "i")
    same = humaneval.task(problem, image="i")
    assert one.name == same.name
    assert one.build(ORACLE, prefix="t").spec == same.build(ORACLE, prefix="t").spec
