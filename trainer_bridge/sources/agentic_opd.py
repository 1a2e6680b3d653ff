"""AgenticOPD: rows with a coding task and Python test code; also a `solution`, for an Oracle.

The family of a task is its row's `family`, `category` or `difficulty`, else `coding`.
"""

from dataclasses import dataclass
from typing import Any

from episode_operator.api.agent import Agent, AgentKind, Model
from trainer_bridge.sources.errors import Unreadable, UnusableError
from trainer_bridge.sources.fields import Row, optional_text, text
from trainer_bridge.sources.task import Build, Options, episode_spec

FAMILY = "coding"
VERIFIER_SECONDS = 30

_SOLUTION = "/solution/solution.py"


@dataclass(frozen=True, slots=True)
class AgenticOpdTask:
    """One row."""

    name: str
    family: str
    where: str
    image: str
    task: str
    test_code: str
    solution: str | None
    workdir: str | None = None
    verifier_seconds: int = VERIFIER_SECONDS
    notes: tuple[str, ...] = ()

    def build(self, agent: Agent, *, prefix: str, model: Model | None = None) -> Build:
        """An Episode of the task; see `Task.build`. It needs no ConfigMaps."""
        task: dict[str, Any] = {
            "image": self.image,
            "workdir": self.workdir,
            "instruction": f"{self.task}\n\nWrite the solution to solution.py in the current "
            "working directory.",
        }
        if agent.kind is AgentKind.ORACLE:
            if self.solution is None:
                raise Unreadable(self.where, "the row has no `solution` for the Oracle")
            task["solution"] = {
                "script": f"cp {_SOLUTION} solution.py",
                "files": [{"path": _SOLUTION, "content": self.solution}],
            }
        fields = {
            "task": task,
            "agent": agent,
            "model": model,
            "verifier": {
                "test_code": {"code": self.test_code},
                "timeout_seconds": self.verifier_seconds,
            },
        }
        return Build(episode_spec(self.where, fields))


def is_row(row: Row) -> bool:
    """Whether the row is one of these."""
    return "test_code" in row or "tests" in row


def read_row(row: Row, name: str, where: str, options: Options) -> AgenticOpdTask:
    """The task of a row.

    Raises:
        UnusableError: a field is missing, or no image is named.
    """
    return AgenticOpdTask(
        name=name,
        family=optional_text(row, "family", "category", "difficulty") or FAMILY,
        where=where,
        task=text(row, "task"),
        test_code=text(row, "test_code" if "test_code" in row else "tests"),
        solution=optional_text(row, "solution"),
        image=python_image(row, name, options),
    )


def python_image(row: Row, name: str, options: Options) -> str:
    """The caller's image for a row's task, else the row's own.

    Raises:
        UnusableError: neither names one.
    """
    image = options.image_of(name) or optional_text(row, "image")
    if image is None:
        raise UnusableError("no image: name one that has Python with `image` or --image")
    return image
