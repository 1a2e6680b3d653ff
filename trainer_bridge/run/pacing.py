"""How soon the next group starts while groups end without a verdict. Pure."""

from typing import Final

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 300.0


class Pacing:
    """Pauses between starts, each twice as long as the one before, until a group is complete.

    What is wrong with a configuration or a model server is wrong with every group, and each group
    that is tried costs Episodes, and the epoch a task.
    """

    def __init__(self) -> None:
        self._pause = 0.0
        self._until = 0.0

    def may_start(self, now: float) -> bool:
        """Whether no pause goes on; all times are seconds of one monotonic clock."""
        return now >= self._until

    def complete(self) -> None:
        """A group has all its verdicts: there is no pause any more."""
        self._pause = self._until = 0.0

    def incomplete(self, now: float) -> float | None:
        """A group is dropped for want of a verdict.

        Returns:
            seconds of the pause that begins; None in a pause, as the group was started before.
        """
        if not self.may_start(now):
            return None
        self._pause = min(max(2 * self._pause, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
        self._until = now + self._pause
        return self._pause
