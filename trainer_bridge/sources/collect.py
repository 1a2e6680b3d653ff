"""Reads tasks one by one: each is either there, under a name of its own, or has a reason."""

from collections.abc import Callable, Iterable

from trainer_bridge.sources.errors import Unreadable
from trainer_bridge.sources.task import Task

Place = tuple[str, Callable[[], Task]]
"""Where a task is, for messages, and what reads it or raises Unreadable."""


def collect(places: Iterable[Place]) -> list[Task | Unreadable]:
    """Every task in the order of the places; the reason instead where it cannot be read.

    A name stands for one task: what comes later under the same name is unreadable. It is often
    the same task, which may not be in both training and evaluation.
    """
    found: list[Task | Unreadable] = []
    taken: dict[str, str] = {}
    for where, read in places:
        try:
            task = read()
            _check(task.name, where, taken)
        except Unreadable as error:
            found.append(error)
        else:
            found.append(task)
    return found


def _check(name: str, where: str, taken: dict[str, str]) -> None:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise Unreadable(where, f"the name {name!r} is not valid Unicode; rename it") from error
    if name in taken:
        raise Unreadable(
            where, f"{taken[name]} has the same name, {name}; rename it or leave it out"
        )
    taken[name] = where
