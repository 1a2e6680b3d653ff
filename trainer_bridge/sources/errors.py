"""Why a task cannot be read."""

from pathlib import Path


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
