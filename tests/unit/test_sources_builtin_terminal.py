"""The built-in terminal tasks: each is solved by its command, and by nothing that is near to it."""

import hashlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import pytest

from episode_operator.api.agent import Agent, AgentKind
from trainer_bridge.sources import NoTasksError, TaskSettings, read_catalog
from trainer_bridge.sources.builtin.terminal import (
    DEFAULT_COUNT,
    FAMILIES,
    MOST_TASKS,
    Split,
    TerminalTask,
    divided,
    tasks,
    words,
)
from trainer_bridge.sources.builtin.terminal.episode import TerminalEpisodes, pytest_file
from trainer_bridge.sources.builtin.terminal.shapes import SHAPES

IMAGE = "registry.test/python"
SPLITS: tuple[Split, ...] = get_args(Split)


def some(split: Split, count: int, *, seed: int = 1) -> list[TerminalTask]:
    return list(islice(tasks(split, seed=seed), count))


def passes(task: TerminalTask, root: Path) -> bool:
    """Whether the task's pytest file passes on what is in the folder instead of /workspace."""
    module: dict[str, Any] = {}
    exec(pytest_file(task).replace("/workspace", str(root)), module)
    try:
        for name, function in module.items():
            if name.startswith("test_"):
                function()
    except AssertionError:
        return False
    return True


def run(folder: Path, attempts: Iterable[tuple[TerminalTask, str]]) -> list[bool]:
    """Whether each attempt at a task passes; all run in one shell, in folders of their own."""
    pairs, lines = list(attempts), []
    for number, (task, command) in enumerate(pairs):
        root = folder / str(number)
        root.mkdir(parents=True)
        for path, text in task.files.items():
            (root / Path(path).name).write_text(text)
        lines.append(command.replace("/workspace", str(root)))
    subprocess.run(
        ["/bin/sh"],
        input="\n".join(lines),
        text=True,
        check=False,
        capture_output=True,
        timeout=300,
    )
    return [passes(task, folder / str(number)) for number, (task, _) in enumerate(pairs)]


@pytest.mark.parametrize("split", SPLITS)
def test_every_command_solves_its_task(tmp_path: Path, split: Split) -> None:
    attempts = [(task, task.command) for task in some(split, 120)]
    assert run(tmp_path, attempts) == [True] * len(attempts)


def test_doing_nothing_solves_none(tmp_path: Path) -> None:
    attempts = [(task, "true") for split in SPLITS for task in some(split, 240)]
    assert run(tmp_path, attempts) == [False] * len(attempts)


def test_the_commands_of_other_tasks_solve_none(tmp_path: Path) -> None:
    attempts = []
    for task in some("train", 48):
        for shape in SHAPES:
            if (
                shape.words <= len(task.words)
                and shape.inputs + shape.outputs <= len(task.paths)
                and shape.outputs <= len(task.paths) - len(task.files)
            ):
                other = shape.command.format(w=task.words, p=task.paths)
                if other != task.command:
                    attempts.append((task, other))
    assert len(attempts) > 200
    passed = [
        attempt for attempt, passed in zip(attempts, run(tmp_path, attempts), strict=True) if passed
    ]
    assert [(task.command, other) for task, other in passed] == []


def test_what_else_changes_is_noticed(tmp_path: Path) -> None:
    attempts = []
    for task in some("train", 24):
        for path in task.paths:
            attempts.append((task, f"{task.command}; echo >> {path}"))
            attempts.append((task, f"{task.command}; rm {path}"))
            attempts.append((task, f"{task.command}; rm {path}; mkdir {path}"))
            attempts.append((task, f"{task.command}; sed -i 's/$/\\r/' {path}"))
    assert run(tmp_path, attempts) == [False] * len(attempts)


def test_what_is_forgiven(tmp_path: Path) -> None:
    given = some("train", 24)
    without = [
        (task, f'{task.command}; printf %s "$(cat {task.paths[-1]})" > {task.paths[-1]}')
        for task in given
    ]
    assert run(tmp_path / "without", without) == [True] * len(given)
    padded = [(task, f"{task.command}; sed -i 's/^/  /' {task.paths[-1]}") for task in given]
    assert run(tmp_path / "padded", padded) == [task.family.startswith("count") for task in given]


def test_files_are_short_and_numbers_hard_to_guess() -> None:
    given = some("train", MOST_TASKS)
    assert all(len(task.files) == len(set(task.files.values())) for task in given)
    assert all(len(task.instruction) < 180 and len(task.command) < 100 for task in given)
    lines = [len(text.splitlines()) for task in given for text in task.files.values()]
    assert (min(lines), max(lines)) == (3, 12)
    for family in ("count-1", "count-2", "count-3"):
        numbers = [
            text for task in given if task.family == family for text in task.expected.values()
        ]
        assert Counter(numbers).most_common(1)[0][1] < 0.25 * len(numbers)


def test_training_and_held_out_tasks_share_no_word_and_no_name() -> None:
    lists = (words.TRAIN_WORDS, words.HELD_OUT_WORDS, words.TRAIN_NAMES, words.HELD_OUT_NAMES)
    every = [word for each in lists for word in each]
    assert len(set(every)) == len(every)
    assert all(word.isascii() and word.isalpha() and word.islower() for word in every)
    assert len(lists[0]) >= 100 and len(lists[1]) >= 25
    searched = [*words.TRAIN_WORDS, *words.HELD_OUT_WORDS]
    assert [one for one in searched for other in searched if one != other and one in other] == []
    train, held_out = some("train", MOST_TASKS), some("held-out", MOST_TASKS)
    assert not vocabulary(train) & vocabulary(held_out)
    assert vocabulary(train) == {*words.TRAIN_WORDS, *words.TRAIN_NAMES}


def vocabulary(given: list[TerminalTask]) -> set[str]:
    """All words and names of the tasks and their files."""
    found: set[str] = set()
    for task in given:
        found.update(task.words, (Path(path).stem for path in task.paths))
        found.update(" ".join(task.files.values()).lower().split())
    return found


@pytest.mark.parametrize("split", SPLITS)
def test_kinds_and_grades_in_equal_parts(split: Split) -> None:
    assert set(Counter(task.family for task in some(split, 240)).values()) == {20}
    for count in (4, 20, 181):
        kinds = Counter(task.family.partition("-")[0] for task in some(split, count))
        assert max(kinds.values()) - min(kinds.values()) <= 1


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("family", FAMILIES)
def test_even_of_one_family_all_tasks_differ(split: Split, family: Any) -> None:
    given = list(tasks(split, seed=2, families=[family]))
    assert len(given) == MOST_TASKS
    assert {task.family for task in given} == {family}
    assert len({task.name for task in given}) == MOST_TASKS
    assert len({frozenset((*task.words, *task.paths)) for task in given}) == MOST_TASKS


@pytest.mark.parametrize(("split", "count"), [("train", 250), ("held-out", 60)])
@pytest.mark.parametrize("seed", range(3))
def test_a_name_of_a_file_tells_the_task(split: Split, count: int, seed: int) -> None:
    paths = [path for task in some(split, count, seed=seed) for path in task.paths]
    assert len(set(paths)) == len(paths)


def test_the_same_seed_gives_the_same_tasks_on_every_machine() -> None:
    first = some("train", 40)
    text = repr([asdict(task) for task in first])
    assert hashlib.sha256(text.encode()).hexdigest()[:12] == "76d3961b7975"
    assert {task.name for task in first}.isdisjoint(t.name for t in some("train", 40, seed=2))


def test_the_generator_needs_nothing_but_python() -> None:
    folder = str(Path(words.__file__).parents[1])
    program = (
        f"import sys; sys.path.insert(0, {folder!r}); from terminal import tasks; "
        "print(next(tasks('train', seed=1)).command)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{some('train', 1)[0].command}\n"


def test_the_division() -> None:
    train, held_out = divided(seed=1)
    assert (len(train), len(held_out)) == (DEFAULT_COUNT - 20, 20)
    assert (train, held_out) == (some("train", 180), some("held-out", 20))
    sizes = [
        tuple(map(len, divided(seed=1, count=count, ratio=ratio)))
        for count, ratio in [(1, 0.9), (2, 0.9), (2, 1e-9), (10, 0), (40, 0.25), (1000, 0.999)]
    ]
    assert sizes == [(1, 0), (1, 1), (1, 1), (10, 0), (30, 10), (1, 999)]
    with pytest.raises(ValueError, match="at most 1000 terminal tasks, not 1001"):
        divided(seed=1, count=1001)


def test_the_catalog_holds_out_what_the_source_does() -> None:
    catalog = read_catalog(TaskSettings(builtin="terminal", image=IMAGE, seed=7))
    train, held_out = divided(seed=7)
    assert {task.name for task in catalog.train} == {task.name for task in train}
    assert {task.name for task in catalog.evaluation} == {task.name for task in held_out}
    assert catalog.unreadable == ()
    other = read_catalog(TaskSettings(builtin="terminal", image=IMAGE, seed=8))
    assert {task.name for task in other.train}.isdisjoint(task.name for task in train)


def test_settings_restrict_the_catalog() -> None:
    settings = TaskSettings(
        builtin="terminal",
        image=IMAGE,
        limit=40,
        eval_split_ratio=0.25,
        families=("write-1", "count-1"),
    )
    catalog = read_catalog(settings)
    assert Counter(task.family for task in catalog.train) == {"write-1": 15, "count-1": 15}
    assert Counter(task.family for task in catalog.evaluation) == {"write-1": 5, "count-1": 5}


def test_they_have_no_image_of_their_own() -> None:
    with pytest.raises(NoTasksError, match="no image: name one that has Python and pytest"):
        read_catalog(TaskSettings(builtin="terminal"))


def test_an_episode() -> None:
    task = next(tasks("train", seed=1, families=["transform-2"]))
    agent = Agent(kind=AgentKind.ORACLE, timeout_seconds=77)
    build = TerminalEpisodes(task, IMAGE).build(agent, prefix="x")
    assert build.parts == ()
    spec = build.spec
    assert (spec.task.image, spec.task.instruction) == (IMAGE, task.instruction)
    assert {file.path: file.content for file in spec.task.files} == task.files
    assert spec.task.solution is not None and spec.task.solution.script == task.command
    assert spec.agent == agent
    assert spec.verifier is not None and spec.verifier.pytest is not None
    assert spec.verifier.pytest.test == pytest_file(task)
    idle = Agent(
        kind=AgentKind.SCRIPTED, script=[{"tool": "terminal", "arguments": {"command": "true"}}]
    )
    assert TerminalEpisodes(task, IMAGE).build(idle, prefix="x").spec.task.solution is None
