"""The built-in Python problems: their tests pass what is right, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from trainer_bridge.sources import Options, Unreadable
from trainer_bridge.sources.agentic_opd import AgenticOpdTask
from trainer_bridge.sources.builtin import coding
from trainer_bridge.sources.builtin.coding import CODING
from trainer_bridge.sources.builtin.coding.problem import Problem

MISTAKES = {
    "missing-tickets": ("range(min(held),", "range(0,"),
    "kettle-timer": ("{minutes:02}", "{minutes}"),
    "first-past-the-post": ("> counts[best]", ">= counts[best]"),
    "petty-cash": ('-cents if sign == "-" else cents', "cents"),
    "parcel-labels": ("len(label) in places", "bool(places)"),
    "tide-gauge": ("max(0, i - half)", "max(0, i - half + 1)"),
    "rehearsal-plan": ("heapq.heappop(ready)", "ready.pop()"),
    "recipe-scale": ("value - other", "other - value"),
}
"""For each problem a mistake that somebody might make in its solution."""


def run(folder: Path, problem: Problem, solution: str) -> tuple[int, str]:
    """Exit code and output of the tests beside a solution."""
    (folder / "solution.py").write_text(solution)
    (folder / "test_solution.py").write_text(problem.test_code)
    command = [sys.executable, "-S", "-B", "test_solution.py"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("problem", CODING, ids=lambda problem: problem.name)
def test_only_the_solution_passes(tmp_path: Path, problem: Problem) -> None:
    right, wrong = MISTAKES[problem.name]
    assert problem.solution.count(right) == 1
    assert run(tmp_path, problem, problem.solution) == (0, "All tests passed\n")
    assert run(tmp_path, problem, "") == (1, "")
    assert run(tmp_path, problem, problem.solution.replace(right, wrong)) == (1, "")


def test_they_are_tasks_of_graded_difficulty() -> None:
    tasks = coding.load(Options(image="registry.test/python"))
    assert [task.name for task in tasks if isinstance(task, AgenticOpdTask)] == list(MISTAKES)
    families = [task.family for task in tasks if isinstance(task, AgenticOpdTask)]
    assert families == ["easy"] * 3 + ["medium"] * 3 + ["hard"] * 2
    assert len(coding.load(Options(image="i"), limit=2)) == 2


def test_they_have_no_image_of_their_own() -> None:
    for one in coding.load(Options()):
        assert isinstance(one, Unreadable)
        assert one.reason == "no image: name one that has Python with `image` or --image"
