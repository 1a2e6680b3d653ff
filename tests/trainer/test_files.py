"""What is on disk between two starts: the batch under way, and the lines of the steps."""

import json
from pathlib import Path

import pytest

from examples.trainer.batches import Batches
from examples.trainer.options import parse
from examples.trainer.record import Record, of_rows
from tests.trainer.groups import group, rows


def test_a_batch_is_fetched_once_and_taken_again_until_its_step_is_done(tmp_path: Path) -> None:
    served = iter([b"first", b"second"])
    for _ in range(3):  # killed and started again
        assert Batches(tmp_path).take(4, lambda: next(served)) == b"first"
    Batches(tmp_path).done(4)
    assert Batches(tmp_path).take(4, lambda: next(served)) == b"first"
    Batches(tmp_path).done(5)
    assert list(tmp_path.iterdir()) == []
    assert Batches(tmp_path).take(5, lambda: next(served)) == b"second"


def test_no_batch_leaves_nothing(tmp_path: Path) -> None:
    assert Batches(tmp_path).take(0, lambda: None) is None
    assert list(tmp_path.iterdir()) == []


def test_a_batch_that_is_put_aside_is_kept_and_not_taken(tmp_path: Path) -> None:
    batches = Batches(tmp_path)
    batches.take(2, lambda: b"bad")
    assert batches.put_aside(2).read_bytes() == b"bad"
    assert batches.take(2, lambda: b"good") == b"good"


@pytest.mark.parametrize(
    ("lines", "steps", "kept", "has_line"),
    [
        ("", 0, [], True),
        ("", 2, [], False),
        ('{"step": 0}\n{"step": 1}\n', 2, [0, 1], True),
        ('{"step": 0}\n{"step": 1}\n', 1, [0], True),
        ('{"step": 0}\n', 2, [0], False),
        ('{"step": 0}\n{"step": 1', 2, [0], False),
    ],
)
def test_lines_are_those_of_the_checkpoint(
    tmp_path: Path, lines: str, steps: int, kept: list[int], has_line: bool
) -> None:
    (tmp_path / "steps.jsonl").write_text(lines)
    record = Record(tmp_path)
    assert record.go_on_after(steps) is has_line
    record.append({"step": 9})
    written = (tmp_path / "steps.jsonl").read_text().splitlines()
    found = [json.loads(one)["step"] for one in written]
    assert found == [*kept, 9]


def test_what_is_told_of_a_batch() -> None:
    assert of_rows(rows(group(taught=True), group()), pass_score=1.0) == {
        "rows": 8,
        "groups": 2,
        "sampled_tokens": 32,
        "reward_mean": 0.375,
        "pass_share": 0.25,
        "distilled_positions": 2,
        "unlisted_positions": 1,
        "distillation_advantage": 0.25,
    }
    assert of_rows(rows(group()), pass_score=0.5)["pass_share"] == 0.5
    assert of_rows(rows(group()), pass_score=1.0)["distillation_advantage"] is None


def test_a_zero_on_the_command_line_is_a_zero() -> None:
    needed = ["--vllm=v", "--model=m", "--output=o", "--pushed=/p", "--steps=3"]
    assert parse([*needed, "--reward-weight=0"]).reward_weight == 0
    assert parse(needed).reward_weight == 1
    assert parse(needed).pushed_on_server == "/p"
    with pytest.raises(SystemExit):
        parse([*needed, "--steps=0"])
