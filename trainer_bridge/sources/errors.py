"""Why a task cannot be read, or a whole source of tasks."""

from collections.abc import Sequence
from pathlib import Path

_SHOWN = 10


class UnusableError(Exception):
    """What is wrong with a task. Whoever knows its path makes Unreadable of it."""


class Unreadable(Exception):
    """A task that cannot be read, or cannot be run the way it asks to be.

    Attributes:
        path: the folder, or the file and line, of the task.
        reason: what is in the way, and what to do about it where something can be done.
    """

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = str(path)
        self.reason = reason


class SourceError(Exception):
    """No tasks can be had from a source; the text says what to do."""


class DatasetError(SourceError):
    """A dataset cannot be loaded the way it is asked for."""


class HubUnreachableError(DatasetError):
    """The hub did not answer, also when it was asked again; a later try may succeed."""


class NoTasksError(SourceError):
    """A source has no task that can be read.

    Attributes:
        unreadable: every task that it has, with the reason.
    """

    def __init__(self, source: str, unreadable: Sequence[Unreadable]) -> None:
        reasons = [f"\n  {each}" for each in unreadable[:_SHOWN]]
        if len(unreadable) > _SHOWN:
            reasons.append(f"\n  and {len(unreadable) - _SHOWN} more")
        what = "none of its tasks can be read:" if unreadable else "it is empty"
        super().__init__(f"{source}: {what}{''.join(reasons)}")
        self.unreadable = tuple(unreadable)
