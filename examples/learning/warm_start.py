"""The policy that learning begins with: examples/policy's fine-tune, stopped early.

It has seen each family of tasks for a few steps, so that it sometimes solves one. A part of the
lessons has a hint behind the instruction, where the teacher of on-policy distillation gets its own.
"""

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path

from episode_operator.distill.prompts import HEADING
from examples.learning.judge import hint_text
from tests.testbed.paths import CACHE
from tests.testbed.policy import ensure_trained, fingerprint
from trainer_bridge.sources.builtin.terminal import Family, tasks

SEED = 1_000_003
"""Of the lessons' tasks: those of a run have small seeds."""
HINTED_SHARE = 0.35
WEIGHTS: dict[Family, int] = {"write-1": 3, "transform-1": 3, "count-1": 3, "fix-1": 4}
"""Lessons of a family: what is harder is taught more, so that no family begins without a chance."""
OPTIONS = ("--steps=14", "--stop-after=7", "--batch=8", "--learning-rate=8e-5")
LESSONS = 56


def lessons() -> list[dict[str, str]]:
    """The lessons in their order: an instruction, with or without a hint, and its command."""
    chance = random.Random(SEED)
    streams = {family: tasks("train", seed=SEED, families=[family]) for family in WEIGHTS}
    chosen = chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=LESSONS)
    return [
        {"instruction": _asked(task.instruction, task.command, chance), "command": task.command}
        for task in (next(streams[family]) for family in chosen)
    ]


def _asked(instruction: str, command: str, chance: random.Random) -> str:
    if chance.random() < HINTED_SHARE:
        return f"{instruction}\n\n{HEADING}\n{hint_text(command)}"
    return instruction


def ensure_warm_start(say: Callable[[str], None]) -> Path:
    """The folder of the policy; trained when there is none of these very inputs.

    Raises:
        TestbedError: the fine-tune failed, or its environment cannot be had.
    """
    text = "".join(f"{json.dumps(lesson)}\n" for lesson in lessons())
    made_of = hashlib.sha256(f"{fingerprint()} {OPTIONS} {text}".encode()).hexdigest()[:12]
    folder = CACHE / "learning" / f"warm-start-{made_of}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    file = folder.with_suffix(".jsonl")
    file.write_text(text)
    return ensure_trained(CACHE, folder, say, [f"--lessons={file}", *OPTIONS])
