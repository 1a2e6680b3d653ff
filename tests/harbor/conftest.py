"""The generated files, with what Harbor says to each."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.harbor.environment import ensure_models
from tests.harbor.generate import ENVIRON, task_toml

SEED = 20_261_130
FILES = 800
WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True)
class Case:
    """A file, and what Harbor says to it: its values, or None where it refuses the file."""

    toml: str
    harbor: dict[str, Any] | None


@pytest.fixture(scope="session")
def cases() -> list[Case]:
    """Every generated file."""
    files = [task_toml(Random(f"{SEED} {index}")) for index in range(FILES)]
    told = subprocess.run(
        [str(ensure_models(print)), str(WORKER)],
        input=json.dumps({"environ": ENVIRON, "files": files}),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = json.loads(told.stdout)
    found = []
    for file, answer in zip(files, answers, strict=True):
        told_users(answer.get("read"))
        found.append(Case(file, answer.get("read")))
    return found


def told_users(harbor: dict[str, Any] | None) -> None:
    """Users are text for us, where Harbor keeps numbers as numbers."""
    for step in harbor["steps"] if harbor else []:
        for role in ("agent_user", "verifier_user"):
            step[role] = None if step[role] is None else str(step[role])
