"""A coding problem as an AgenticOPD row."""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem.

    Attributes:
        name: name of its task.
        task: what the agent is asked for.
        tests: Python code that imports from `solution` and asserts.
        solution: `solution.py` for the Oracle.
    """

    name: str
    difficulty: Literal["easy", "medium", "hard"]
    task: str
    tests: str
    solution: str

    @property
    def test_code(self) -> str:
        """The tests; they say that they passed only after every assertion held."""
        return f"{self.tests}\nprint('All tests passed')\n"

    def row(self) -> dict[str, Any]:
        """The row of a dataset that has this problem."""
        return {
            "task_id": self.name,
            "difficulty": self.difficulty,
            "task": self.task,
            "test_code": self.test_code,
            "solution": self.solution,
        }
