"""Which tasks are held out, and when the turn of each of the others is."""

import json
import random
import time
from pathlib import Path

import pytest

from episode_operator.api.agent import Agent, Model
from tests.unit import task_folders
from trainer_bridge.sources import (
    Build,
    Catalog,
    NoTasksError,
    Task,
    TaskSettings,
    Unreadable,
    read_catalog,
)


class Named:
    """A task that is only a name."""

    family = "test"
    notes = ()

    def __init__(self, name: str) -> None:
        self.name = name

    def build(self, agent: Agent, *, prefix: str, model: Model | None = None) -> Build:
        raise NotImplementedError


def tasks(count: int) -> list[Task | Unreadable]:
    return [Named(f"task-{number}") for number in range(count)]


def catalog(found: list[Task | Unreadable], *, ratio: float = 0.1, seed: int = 42) -> Catalog:
    return Catalog(found, source="test", ratio=ratio, seed=seed)


def names(found: tuple[Task, ...]) -> list[str]:
    return [task.name for task in found]


def turns(one: Catalog, start: int, stop: int) -> list[str]:
    return [one.task(index).name for index in range(start, stop)]


def test_every_task_is_on_one_side() -> None:
    one = catalog(tasks(1000))
    assert len(one.train) + len(one.evaluation) == 1000
    assert not set(names(one.train)) & set(names(one.evaluation))
    assert 70 <= len(one.evaluation) <= 130


def test_the_same_sides_and_order_on_every_machine() -> None:
    one = catalog(tasks(20), ratio=0.2)
    assert names(one.evaluation) == [f"task-{n}" for n in (10, 3, 11, 8, 12, 18)]
    assert turns(one, 0, 4) == ["task-19", "task-0", "task-4", "task-7"]
    assert turns(one, 14, 16) == ["task-14", "task-9"], "another order in the next epoch"
    shuffled = tasks(20)
    random.Random(1).shuffle(shuffled)
    other = catalog(shuffled, ratio=0.2)
    assert names(other.evaluation) == names(one.evaluation)
    assert names(other.train) == names(one.train)
    assert turns(other, 0, 100) == turns(one, 0, 100)


def test_tasks_that_are_added_later_move_no_other() -> None:
    before, after = catalog(tasks(200)), catalog(tasks(400))
    assert set(names(before.evaluation)) <= set(names(after.evaluation))
    assert set(names(before.train)) <= set(names(after.train))


def test_a_larger_share_keeps_what_was_held_out() -> None:
    small, large = catalog(tasks(200), ratio=0.1), catalog(tasks(200), ratio=0.3)
    assert set(names(small.evaluation)) < set(names(large.evaluation))


def test_the_seed_decides() -> None:
    one, other = catalog(tasks(200)), catalog(tasks(200), seed=43)
    assert set(names(one.evaluation)) != set(names(other.evaluation))


@pytest.mark.parametrize("count", range(2, 9))
@pytest.mark.parametrize("ratio", [1e-9, 0.1, 0.5, 0.999999999])
def test_both_sides_have_a_task_as_soon_as_there_are_two(count: int, ratio: float) -> None:
    one = catalog(tasks(count), ratio=ratio)
    assert one.train and one.evaluation
    assert len(one.train) + len(one.evaluation) == count


def test_nothing_is_held_out() -> None:
    assert catalog(tasks(50), ratio=0).evaluation == ()
    alone = catalog(tasks(1), ratio=0.9)
    assert (names(alone.train), alone.evaluation) == (["task-0"], ())
    assert turns(alone, 0, 3) == ["task-0"] * 3


def test_a_source_may_say_which_tasks_are_held_out() -> None:
    held_out = {"task-1", "task-4", "task-7", "unreadable"}
    found = [*tasks(9), Unreadable("unreadable", "why")]
    one = Catalog(found, source="test", ratio=0.9, seed=42, held_out=held_out)
    assert set(names(one.evaluation)) == {"task-1", "task-4", "task-7"}
    assert names(one.train) == [f"task-{n}" for n in (0, 2, 3, 5, 6, 8)]
    assert names(one.evaluation) == [
        name for name in names(catalog(tasks(9), ratio=0.99).evaluation) if name in held_out
    ], "in the seeded order"
    assert sorted(turns(one, 6, 12)) == names(one.train)
    nothing = Catalog(tasks(3), source="test", ratio=0.9, seed=42, held_out=())
    assert (len(nothing.train), nothing.evaluation) == (3, ())


def test_every_epoch_has_each_task_once_in_an_order_of_its_own() -> None:
    one = catalog(tasks(30), ratio=0.2)
    size = len(one.train)
    epochs = [turns(one, epoch * size, (epoch + 1) * size) for epoch in range(20)]
    assert all(sorted(epoch) == names(one.train) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 20
    assert len({epoch[0] for epoch in epochs}) > 5


def test_a_turn_does_not_depend_on_those_asked_for_before() -> None:
    one = catalog(tasks(30))
    forward = turns(one, 0, 200)
    asked = list(range(200))
    random.Random(2).shuffle(asked)
    other = catalog(tasks(30))
    assert {index: other.task(index).name for index in asked} == dict(enumerate(forward))


def test_tasks_by_name() -> None:
    one = catalog([*tasks(10), Named("задача"), Unreadable("x", "why")])
    for name in (*names(one.train), *names(one.evaluation)):
        found = one.named(name)
        assert found is not None and found.name == name
    assert one.named("задача") is not None
    assert one.named("x") is None
    assert [each.reason for each in one.unreadable] == ["why"]


def test_without_a_readable_task_all_reasons_are_told() -> None:
    found: list[Task | Unreadable] = [Unreadable(f"t{n}", f"why {n}") for n in range(12)]
    with pytest.raises(NoTasksError) as caught:
        catalog(found)
    told = str(caught.value)
    assert told.startswith("test: none of its tasks can be read:\n  t0: why 0\n  t1: why 1\n")
    assert told.endswith("\n  t9: why 9\n  and 2 more")
    assert len(caught.value.unreadable) == 12
    with pytest.raises(NoTasksError, match=r"^test: it is empty$"):
        catalog([])


def test_ten_thousand_rows(tmp_path: Path) -> None:
    row = {"task": "Write f.", "test_code": "from solution import f\n"}
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps({**row, 'task_id': n})}\n" for n in range(10_000)))
    settings = TaskSettings(path=path, image="registry.test/python")
    started = time.process_time()
    one = read_catalog(settings)
    for index in range(0, 30_000, 3):
        one.task(index)
    assert time.process_time() - started < 3
    assert len(one.train) + len(one.evaluation) == 10_000


def test_folders(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        task_folders.harbor(tmp_path / name)
    (tmp_path / "d").mkdir()
    one = read_catalog(TaskSettings(path=tmp_path, eval_split_ratio=0.5))
    assert sorted(names(one.train) + names(one.evaluation)) == ["a", "b", "c"]
    assert [each.path for each in one.unreadable] == [str(tmp_path / "d")]
    few = read_catalog(TaskSettings(path=tmp_path, eval_split_ratio=0, limit=2))
    assert names(few.train) == ["a", "b"]


def test_rows_name_folders_elsewhere(tmp_path: Path) -> None:
    files = {"instruction.md": "Do it.", "test_final_state.py": "def test(): pass\n"}
    task_folders.write(tmp_path / "folders" / "task_1", files)
    path = tmp_path / "rows" / "rows.json"
    path.parent.mkdir()
    rows = [{"extra_info": {"task_dir": f"/gone/task_{number}"}} for number in (1, 2)]
    path.write_text(json.dumps(rows))
    one = read_catalog(TaskSettings(path=path, tasks_base_dir=tmp_path / "folders"))
    assert names(one.train) == ["task_1"]
    assert [each.reason for each in one.unreadable] == [
        f"there is no folder /gone/task_2 nor {tmp_path / 'folders' / 'task_2'}; "
        "tasks_base_dir must be the folder that holds it"
    ]
    with pytest.raises(NoTasksError, match=r"2: there is no folder .*/rows/task_2; tasks_base_dir"):
        read_catalog(TaskSettings(path=path))


def test_builtin_tasks() -> None:
    one = read_catalog(TaskSettings(builtin="coding", image="registry.test/python"))
    assert len(one.train) + len(one.evaluation) == 8
    with pytest.raises(NoTasksError, match=r"^builtin coding: .*\n.* no image: name one"):
        read_catalog(TaskSettings(builtin="coding"))
