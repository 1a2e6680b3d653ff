"""What a user may say about tasks, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from trainer_bridge.sources import TaskSettings


def test_one_source_is_enough() -> None:
    settings = TaskSettings(dataset="some/tasks")
    assert (settings.split, settings.eval_split_ratio, settings.seed) == ("train", 0.1, 42)
    assert (settings.subset, settings.revision, settings.limit) == (None, None, None)


def test_paths_may_begin_with_the_home_folder() -> None:
    settings = TaskSettings.model_validate({"path": "~/tasks", "tasks_base_dir": "~/more"})
    assert settings.path == Path.home() / "tasks"
    assert settings.tasks_base_dir == Path.home() / "more"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "exactly one of dataset, path, builtin must be set, not none"),
        ({"dataset": "a", "path": "b"}, "must be set, not dataset and path"),
        ({"dataset": ""}, "at least 1 character"),
        ({"builtin": "poems"}, "Input should be 'coding'"),
        ({"path": "a", "split": "test"}, "split is only for dataset"),
        ({"path": "a", "revision": "main"}, "revision is only for dataset"),
        ({"builtin": "coding", "tasks_base_dir": "x"}, "only for dataset or path"),
        ({"builtin": "coding", "families": ["write-1"]}, "families is only for builtin terminal"),
        ({"builtin": "terminal", "families": ["write-4"]}, "Input should be 'write-1', "),
        ({"builtin": "terminal", "families": []}, "at least 1 item"),
        ({"builtin": "terminal", "limit": 1001}, "limit is at most 1000 for builtin terminal"),
        ({"path": "a", "eval_split_ratio": 1.0}, "less than 1"),
        ({"path": "a", "eval_split_ratio": -0.1}, "greater than or equal to 0"),
        ({"path": "a", "eval_split_ratio": float("nan")}, "less than 1"),
        ({"path": "a", "limit": 0}, "greater than or equal to 1"),
        ({"path": "a", "evalSplitRatio": 0.1}, "Extra inputs are not permitted"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        TaskSettings.model_validate(fields)


def test_every_setting_is_described() -> None:
    assert all(field.description for field in TaskSettings.model_fields.values())
