"""Python problems of graded difficulty, as AgenticOPD tasks."""

from itertools import islice
from pathlib import Path

from trainer_bridge.sources import rows
from trainer_bridge.sources.builtin.coding import easy, hard, medium
from trainer_bridge.sources.builtin.coding.problem import Problem
from trainer_bridge.sources.collect import collect
from trainer_bridge.sources.errors import Unreadable
from trainer_bridge.sources.task import Options, Task

CODING: tuple[Problem, ...] = (*easy.PROBLEMS, *medium.PROBLEMS, *hard.PROBLEMS)
"""In order of difficulty."""


def load(options: Options, *, limit: int | None = None) -> list[Task | Unreadable]:
    """The problems as tasks; their family is their difficulty.

    `limit` is how many to read, from the first; None for all.
    """
    numbered = enumerate(problem.row() for problem in islice(CODING, limit))
    places = rows.places(
        numbered, origin="builtin coding", source="coding", base=Path(), options=options
    )
    return collect(places)
