"""What a trainer must offer to be fed: one class with this protocol.

What a send came to is told by its error, because each leads to something else: a group that
certainly did not arrive is sent again, one that the trainer does not want is dropped, and one that
may or may not have arrived is in the state Unknown, for the user's policy to resolve.
"""

from dataclasses import dataclass
from typing import Protocol

from trainer_bridge.training import TrainingGroup


class SinkError(Exception):
    """A sink cannot go on; the text says what to do."""


class NotSentError(SinkError):
    """Nothing of the group has arrived: it is sent again, after a pause."""


class RefusedError(SinkError):
    """The group will never be taken: it is dropped.

    Attributes:
        reason: one CamelCase word, of a closed list of the sink, for status and metrics.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class UnknownArrivalError(SinkError):
    """The group may or may not have arrived."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What the trainer wants now.

    Attributes:
        groups: how many groups may be on their way to it at once, those being worked on included;
            None for no limit.
        step: its current step; None where it counts none.
        lost: names of groups that the trainer had, and lost when it restarted; told once.
        finished: whether it has taken all its steps and wants nothing more.
    """

    groups: int | None = None
    step: int | None = None
    lost: tuple[str, ...] = ()
    finished: bool = False


class Sink(Protocol):
    """A trainer, or a place for datasets. Used by one task at a time, but for `send`."""

    async def open(self) -> None:
        """Get ready; returns at once where the trainer has to be waited for: `demand` tells."""

    async def demand(self) -> Demand:
        """What is wanted now; never raises for a trainer that is away: it then wants 0 groups."""

    def check(self, group: TrainingGroup) -> None:
        """Look at a group before anything is sent.

        Raises:
            RefusedError: it must not be sent.
        """

    async def send(self, group: TrainingGroup) -> None:
        """Hand a checked group over; returns once the trainer has it.

        Raises:
            NotSentError, RefusedError, UnknownArrivalError: it has not, and what is known.
        """

    async def arrived(self, group: TrainingGroup) -> bool | None:
        """Whether a group whose send had no clear end has arrived; None where nothing proves it."""

    async def close(self) -> None:
        """Take leave, so that the trainer does not wait for more."""
