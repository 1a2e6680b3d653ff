"""Tasks that come with the bridge, so that a first run needs no dataset: Python problems."""

from itertools import islice
from pathlib import Path

from trainer_bridge.sources import rows
from trainer_bridge.sources.builtin import easy, hard, medium
from trainer_bridge.sources.builtin.problem import Problem
from trainer_bridge.sources.collect import collect
from trainer_bridge.sources.errors import Unreadable
from trainer_bridge.sources.task import Options, Task

CODING: tuple[Problem, ...] = (*easy.PROBLEMS, *medium.PROBLEMS, *hard.PROBLEMS)
"""In order of difficulty."""


def load(options: Options, *, limit: int | None = None) -> list[Task | Unreadable]:
    """The coding problems as AgenticOPD tasks; their family is their difficulty.

    `limit` is how many to read, from the first; None for all.
    """
    numbered = enumerate(problem.row() for problem in islice(CODING, limit))
    places = rows.places(
        numbered, origin="builtin coding", source="coding", base=Path(), options=options
    )
    return collect(places)
