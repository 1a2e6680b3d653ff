"""The labels of a server's weights, and how many updates lie between two of them."""

_LONGEST_NUMBER = 18
"""Digits; a longer label is a name."""


class WeightVersions:
    """What this operator saw of one server's labels, in the order in which they first appeared."""

    def __init__(self) -> None:
        self._order: dict[str, int] = {}

    def see(self, label: str) -> None:
        """The server names its weights so now."""
        self._order.setdefault(label, len(self._order))

    def newer_by(self, label: str, than: str) -> int:
        """How many updates `label` is newer than another; 0 where it is older.

        The difference where both labels are whole numbers. Else the labels that appeared between
        them; where the older one was never seen here, as after a restart, another label is one.
        """
        if are_numbers(label, than):
            return max(0, int(label) - int(than))
        if label == than:
            return 0
        if label not in self._order or than not in self._order:
            return 1
        return max(0, self._order[label] - self._order[than])


def are_numbers(*labels: str) -> bool:
    """Whether all labels are whole numbers, so that their difference counts updates."""
    return all(
        label.isascii() and label.isdigit() and len(label) <= _LONGEST_NUMBER for label in labels
    )
