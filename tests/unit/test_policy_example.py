"""examples/policy: what the policy learns from is what the operator really sends."""

import itertools
import json
import runpy
from pathlib import Path
from typing import Any

from episode_operator.agent.prompts import DEFAULT_SYSTEM_PROMPT
from episode_operator.agent.tools import toolbox

POLICY = Path(__file__).parents[2] / "examples" / "policy"
TASKS: dict[str, Any] = runpy.run_path(str(POLICY / "tasks.py"))


def test_the_tools_are_the_operators() -> None:
    """Write tools.json anew as examples/policy/README.md says when this fails."""
    known = json.loads((POLICY / "tools.json").read_text())
    assert known == [tool.schema() for tool in toolbox(["terminal", "file"]).values()]


def test_the_system_prompt_is_the_operators() -> None:
    source = " ".join((POLICY / "train.py").read_text().replace('" "', "").split())
    assert DEFAULT_SYSTEM_PROMPT in source.replace('" "', "")


def test_held_out_tasks_share_nothing_with_training() -> None:
    assert not set(TASKS["TRAIN_WORDS"]) & set(TASKS["HELD_OUT_WORDS"])
    assert not set(TASKS["TRAIN_NAMES"]) & set(TASKS["HELD_OUT_NAMES"])
    for words in ("TRAIN_WORDS", "HELD_OUT_WORDS", "TRAIN_NAMES", "HELD_OUT_NAMES"):
        assert len(set(TASKS[words])) == len(TASKS[words])


def test_tasks_are_the_same_for_the_same_seed() -> None:
    def some(split: str, seed: int) -> list[Any]:
        return list(itertools.islice(TASKS["tasks"](split, seed=seed), 40))

    assert some("train", 1) == some("train", 1) != some("train", 2)
    for task in some("held-out", 0):
        assert task.word in task.instruction and task.path in task.instruction
        assert task.command == f"echo {task.word} > {task.path}"
