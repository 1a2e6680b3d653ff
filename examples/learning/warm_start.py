"""The policy that learning begins with: examples/policy's fine-tune, stopped early.

It has seen each family of tasks for a few steps, so that it sometimes solves one. A part of the
lessons has a hint behind the instruction, where the teacher of on-policy distillation gets its own.
"""

import hashlib
import json
import random
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from pathlib import Path

from episode_operator.distill.prompts import HEADING
from examples.learning.judge import hint_text
from examples.learning.plan import FAMILIES
from tests.testbed.paths import CACHE
from tests.testbed.policy import ensure_trained, fingerprint
from trainer_bridge.sources.builtin.terminal import Family, TerminalTask, tasks

SEED = 1_000_003
"""Of the lessons' tasks: those of a run have small seeds."""
HINTED_SHARE = 0.25
ROUND = {"echo": 2, "sort": 2, "tac": 3, "wc -l": 1, "wc -w": 1, "sed": 3}
"""Lessons of a step by how their commands begin: what is harder is taught more, so that nothing
begins without a chance. Every step teaches all of it, else the policy does what it saw last."""
STEPS = 9
OPTIONS = (
    "--steps=20",
    f"--stop-after={STEPS}",
    f"--batch={sum(ROUND.values())}",
    "--learning-rate=4e-5",
)


def lessons() -> list[dict[str, str]]:
    """The lessons in their order: an instruction, with or without a hint, and its command."""
    chance = random.Random(SEED)
    streams = {begin: _tasks(begin) for begin in ROUND}
    chosen = [begin for begin, count in ROUND.items() for _ in range(count)] * STEPS
    return [
        {"instruction": _asked(task.instruction, task.command, chance), "command": task.command}
        for task in (next(streams[begin]) for begin in chosen)
    ]


def _tasks(begin: str) -> Iterator[TerminalTask]:
    """Tasks whose command begins so."""
    (family,) = {task.family for task in islice(_stream(FAMILIES), 100) if _begins(task, begin)}
    return (task for task in _stream([family]) if _begins(task, begin))


def _stream(families: Collection[Family]) -> Iterator[TerminalTask]:
    return tasks("train", seed=SEED, families=families)


def _begins(task: TerminalTask, begin: str) -> bool:
    return task.command.startswith(f"{begin} ")


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
