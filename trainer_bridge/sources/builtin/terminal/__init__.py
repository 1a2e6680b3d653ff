"""Small terminal tasks of graded difficulty, made from a seed: what is asked, and what solves it.

Training and held-out tasks share no word and no file name. Everything that is imported here is of
the standard library alone, so that a trainer's own environment can use it; `episode` makes Episodes
of it.
"""

from .shapes import FAMILIES, Family
from .stream import DEFAULT_COUNT, MOST_TASKS, Split, TerminalTask, divided, tasks

__all__ = [
    "DEFAULT_COUNT",
    "FAMILIES",
    "MOST_TASKS",
    "Family",
    "Split",
    "TerminalTask",
    "divided",
    "tasks",
]
