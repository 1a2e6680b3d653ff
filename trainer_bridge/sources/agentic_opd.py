"""AgenticOPD: rows with a coding task and Python test code; also a `solution`, for an Oracle."""

from dataclasses import dataclass
from typing import Any

from episode_operator.api.agent import Agent, AgentKind, Model
from trainer_bridge.sources.errors import Unreadable
from trainer_bridge.sources.task import Build, Options, episode_spec

VERIFIER_SECONDS = 30

_SOLUTION = "/solution/solution.py"


@dataclass(frozen=True, slots=True)
class AgenticOpdTask:
    """One row."""

    name: str
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


def is_row(row: dict[str, Any]) -> bool:
    """Whether the row is one of these."""
    return "test_code" in row or "tests" in row


def read_row(row: dict[str, Any], name: str, where: str, options: Options) -> AgenticOpdTask:
    """The task of a row.

    Raises:
        Unreadable: a field is missing, or no image is named.
    """
    task, code = row.get("task"), row.get("test_code", row.get("tests"))
    for field, value in (("task", task), ("test_code", code)):
        if not isinstance(value, str) or not value.strip():
            raise Unreadable(where, f"the row has no text in its field `{field}`")
    solution = row.get("solution")
    if solution is not None and not isinstance(solution, str):
        raise Unreadable(where, "the row's field `solution` is not text")
    image = options.image_of(name) or row.get("image")
    if not isinstance(image, str):
        raise Unreadable(where, "no image: name one that has Python with --image")
    return AgenticOpdTask(name, where, image, str(task), str(code), solution)
