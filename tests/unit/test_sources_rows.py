"""AgenticOPD rows, Endless Terminals folders and rows, and how tasks are found."""

import json
from pathlib import Path
from typing import Any

import pytest

from episode_operator.api.agent import Agent, AgentKind
from episode_operator.api.decisions import Contract
from tests.unit import task_folders
from tests.unit.test_sources_harbor import unpacked
from trainer_bridge.sources import Options, Task, Unreadable, humaneval, load
from trainer_bridge.sources.agentic_opd import AgenticOpdTask
from trainer_bridge.sources.endless_terminals import EndlessTerminalsTask

ORACLE = Agent(kind=AgentKind.ORACLE, timeout_seconds=900)
MODEL = Agent(kind=AgentKind.MODEL)
TEST = "def test_it():\n    assert True\n"
OPD = {"task": "Write f.", "test_code": "from solution import f\n", "solution": "f = 1\n"}
ENDLESS = {
    "instruction.md": "Do it.\n",
    "environment/container.def": "Bootstrap: docker\nFrom: registry.test/endless:1\n",
    "tests/test_final_state.py": TEST,
    "solution/solve.sh": "#!/bin/sh\ntrue\n",
}


def found(path: Path, image: str | None = "registry.test/{name}") -> list[Task | Unreadable]:
    return load(path, Options(image=image, environ={}))


def task(path: Path, image: str | None = None) -> Task:
    [one] = found(path, image)
    assert not isinstance(one, Unreadable), one
    return one


def reason(path: Path, image: str | None = None) -> str:
    [one] = found(path, image)
    assert isinstance(one, Unreadable), one
    return one.reason


def rows(path: Path, *values: Any) -> Path:
    path.write_text("".join(f"{json.dumps(value, ensure_ascii=False)}\n" for value in values))
    return path


def test_an_opd_row(tmp_path: Path) -> None:
    one = task(rows(tmp_path / "easy.jsonl", {**OPD, "difficulty": "easy"}), "registry.test/py")
    assert one.name == "easy-1"
    made = one.build(ORACLE, prefix="t")
    assert made.parts == ()
    assert made.spec.task.image == "registry.test/py"
    assert made.spec.verifier is not None and made.spec.verifier.test_code is not None
    assert made.spec.verifier.test_code.code == OPD["test_code"]
    assert made.spec.task.solution is not None
    assert made.spec.task.solution.files[0].content == OPD["solution"]
    assert OPD["test_code"] not in (made.spec.task.instruction or ""), "the tests stay hidden"
    assert one.build(MODEL, prefix="t").spec.task.solution is None


def test_an_opd_row_without_solution_is_no_oracles(tmp_path: Path) -> None:
    one = task(rows(tmp_path / "a.jsonl", {"task": "x", "tests": "pass"}), "i")
    with pytest.raises(Unreadable, match="no `solution` for the Oracle"):
        one.build(ORACLE, prefix="t")
    assert one.build(MODEL, prefix="t").spec.plan[0].verifier.contract is Contract.TEST_CODE


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"test_code": "x"}, "the row has no text in its field `task`"),
        ({"task": "x", "test_code": " "}, "the row has no text in its field `test_code`"),
        ({**OPD, "solution": 1}, "the row's field `solution` is not text"),
        (OPD, "no image: name one that has Python with `image` or --image"),
        ({"x": 1, "y": 2}, "no kind of row is known with the fields x, y; known are task and"),
        ({}, "no kind of row is known with the fields ;"),
        ({"extra_info": "task_1"}, "the row has neither extra_info.task_dir nor ground_truth"),
        ({"extra_info": {"task_dir": 7}}, "the row has neither extra_info.task_dir"),
        ({"extra_info": {"task_dir": "/"}}, "the row has neither extra_info.task_dir"),
        ({"extra_info": {"task_dir": "gone"}}, "there is no folder"),
        ({"extra_info": {"task_dir": "x" * 300}}, "[Errno 36] File name too long"),
        ({"task": None, "test_code": "x"}, "the row has no text in its field `task`"),
        ({**OPD, "category": 1}, "the row's field `category` is not text"),
        ({**OPD, "task_id": [1]}, "the row's field `task_id` is neither text nor a whole number"),
        ([1], "the row is not an object"),
    ],
)
def test_rows_that_cannot_be_read(tmp_path: Path, row: Any, why: str) -> None:
    assert reason(rows(tmp_path / "rows.jsonl", row)).startswith(why)


def test_every_line_is_accounted_for(tmp_path: Path) -> None:
    path = rows(tmp_path / "rows.jsonl", OPD, {**OPD, "task": "a\u2028b"})
    path.write_text(path.read_text() + "\n{broken\n" + "[" * 100_000)
    one, two, broken, deep = found(path, "i")
    assert isinstance(one, AgenticOpdTask) and isinstance(two, AgenticOpdTask)
    assert two.task == "a\u2028b"
    assert isinstance(broken, Unreadable)
    assert broken.path == f"{path}:4" and broken.reason.startswith("not JSON")
    assert isinstance(deep, Unreadable) and deep.reason.startswith("not JSON")


def test_a_json_list_of_rows(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([OPD, OPD]))
    assert [
        one.name for one in found(tmp_path / "rows.json", "i") if isinstance(one, AgenticOpdTask)
    ]
    (tmp_path / "rows.json").write_text(json.dumps(OPD))
    assert reason(tmp_path / "rows.json") == "the file is not a JSON list of rows"
    (tmp_path / "rows.json").write_text("[{]")
    assert reason(tmp_path / "rows.json").startswith("Expecting property name")


def test_an_endless_terminals_folder(tmp_path: Path) -> None:
    folder = task_folders.write(tmp_path / "task_7", {**ENDLESS, "tests/helper.py": "x = 1\n"})
    one = task(folder)
    made = one.build(ORACLE, prefix="t")
    verifier = made.spec.verifier
    assert one.name == "task_7"
    assert made.spec.task.image == "registry.test/endless:1"
    assert made.spec.task.instruction == "Do it."
    assert verifier is not None and verifier.pytest is not None
    assert (verifier.pytest.test, verifier.timeout_seconds) == (TEST, 60)
    [tests] = verifier.pytest.archives
    assert unpacked(made, tests) == {"/tests/helper.py": b"x = 1\n"}
    assert made.spec.task.solution is not None
    assert made.spec.task.solution.script == "/solution/solve.sh\n"
    assert made.spec.task.setup is None


def test_the_older_layout_and_the_default_image(tmp_path: Path) -> None:
    files = {
        "test_final_state.py": TEST,
        "environment/task.json": json.dumps({"description": "From JSON."}),
    }
    made = task(task_folders.write(tmp_path, files)).build(MODEL, prefix="t")
    assert made.spec.task.image == "ubuntu:22.04"
    assert made.spec.task.instruction == "From JSON."
    assert made.spec.verifier is not None and made.spec.verifier.pytest is not None
    assert made.spec.verifier.pytest.archives == []


def test_what_a_container_def_does(tmp_path: Path) -> None:
    post = "bootstrap: docker\nFROM: x:1\n%labels\n  a b\n%post\n  cat <<EOF > /a\n%d\nEOF\n"
    files = {**ENDLESS, "environment/container.def": f"{post}%runscript\n  echo hi\n"}
    made = task(task_folders.write(tmp_path, files)).build(ORACLE, prefix="t")
    assert made.spec.task.image == "x:1"
    assert made.spec.task.setup is not None
    assert made.spec.task.setup.script == "set -e\n  cat <<EOF > /a\n%d\nEOF\n"


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        ("Bootstrap: localimage\nFrom: ./x.sif\n", "container.def starts from a localimage"),
        ("From: x\n%environment\n  export A=1\n", "container.def has a section %environment"),
        ("From: x\n%files\n  a /a\n", "container.def has a section %files"),
    ],
)
def test_an_image_that_must_be_built_first(tmp_path: Path, definition: str, why: str) -> None:
    folder = task_folders.write(tmp_path, {**ENDLESS, "environment/container.def": definition})
    assert reason(folder).startswith(why)
    made = task(folder, "registry.test/{name}:1").build(ORACLE, prefix="t")
    assert made.spec.task.image == f"registry.test/{tmp_path.name.lower()}:1"
    assert made.spec.task.setup is None


def test_endless_terminals_rows_name_folders(tmp_path: Path) -> None:
    for name in ("task_1", "task_2"):
        task_folders.write(tmp_path / name, ENDLESS)
    path = rows(
        tmp_path / "rows.jsonl",
        {"description": "Of the row.", "extra_info": {"task_dir": "/data/task_1"}},
        {"reward_spec": {"ground_truth": "task_2"}},
    )
    one, two = found(path, None)
    assert isinstance(one, EndlessTerminalsTask) and isinstance(two, EndlessTerminalsTask)
    assert (one.instruction, two.instruction) == ("Of the row.", "Do it.")


def test_folders_of_every_kind_are_found(tmp_path: Path) -> None:
    task_folders.harbor(tmp_path / "b-harbor")
    task_folders.write(tmp_path / "a-endless", ENDLESS)
    task_folders.write(tmp_path / "c-nothing", {"README.md": "x"})
    task_folders.write(tmp_path / ".git", {"HEAD": "x"})
    task_folders.write(tmp_path, {"README.md": "x"})
    one, two, three = found(tmp_path, None)
    assert not isinstance(one, Unreadable) and one.name == "a-endless"
    assert not isinstance(two, Unreadable) and two.name == "b-harbor"
    assert isinstance(three, Unreadable) and three.path == str(tmp_path / "c-nothing")
    assert three.reason == "no task: there is neither task.toml nor test_final_state.py"


def test_paths_without_tasks(tmp_path: Path) -> None:
    assert reason(tmp_path / "gone") == "there is no such file or folder"
    (tmp_path / "rows.csv").touch()
    assert reason(tmp_path / "rows.csv").startswith("neither a folder nor a file of rows")
    (tmp_path / "empty").mkdir()
    assert reason(tmp_path / "empty") == "there is no task in the folder"
    (tmp_path / "empty.jsonl").touch()
    assert reason(tmp_path / "empty.jsonl") == "there is no row in the file"


def test_humaneval_problems_are_tasks() -> None:
    problem = humaneval.problems()[0]
    right, wrong = (humaneval.task(problem, image="i", mutilated=m) for m in (False, True))
    assert (right.name, wrong.name) == ("humaneval-0", "humaneval-0-mutilated")
    made = right.build(ORACLE, prefix="t").spec
    assert made.plan[0].verifier.contract is Contract.TEST_CODE
    assert humaneval.episode(problem, image="i")["metadata"]["name"] == "humaneval-0"
