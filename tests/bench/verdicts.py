"""The goals that our session has, and whether a run shows them to hold."""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.bench.paths import FLOOR, PEERS, SESSION
from tests.bench.readings import Cell, Spread, digits, quotients

COMMAND = "true"


@dataclass(frozen=True)
class Goal:
    """One goal; it is judged by the median of its repeats."""

    text: str
    target: float
    at_most: bool
    seen: Spread

    @property
    def holds(self) -> bool:
        """Whether the run shows it."""
        return self.seen.median <= self.target if self.at_most else self.seen.median >= self.target

    def __str__(self) -> str:
        bound = f"{'at most' if self.at_most else 'at least'} {digits(self.target)}"
        return f"{'holds ' if self.holds else 'MISSED'}  {self.text}: {self.seen}, goal {bound}"


class Comparison:
    """Ratios between paths at one command and one number of callers, repeat by repeat."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._cells = {(cell.path, cell.command, cell.callers): cell for cell in cells}

    def latency_over_floor(self, path: str, command: str, callers: int) -> Spread:
        """How many times the floor's p50 the path's is."""
        cell, floor = (self._cells[name, command, callers] for name in (path, FLOOR))
        return quotients(cell.p50_ms, floor.p50_ms)

    def rate_over_floor(self, path: str, command: str, callers: int) -> Spread:
        """Which part of the floor's commands per second the path reaches."""
        cell, floor = (self._cells[name, command, callers] for name in (path, FLOOR))
        return quotients(cell.per_second, floor.per_second)

    def times_quicker_than_peers(self, command: str, callers: int) -> Spread:
        """The p50 of the best peer in each repeat over our session's."""
        best = [min(seen) for seen in zip(*self._peers("p50_ms", command, callers), strict=True)]
        return quotients(best, self._cells[SESSION, command, callers].p50_ms)

    def times_the_rate_of_peers(self, command: str, callers: int) -> Spread:
        """Our session's commands per second over those of the best peer in each repeat."""
        peers = self._peers("per_second", command, callers)
        best = [max(seen) for seen in zip(*peers, strict=True)]
        return quotients(self._cells[SESSION, command, callers].per_second, best)

    def times_any_rate_of_peers(self, command: str, callers: int) -> Spread:
        """The same over what the best peer does at its own best number of callers."""
        peers = [
            cell.per_second
            for cell in self._cells.values()
            if cell.path in PEERS and cell.command == command
        ]
        best = [max(seen) for seen in zip(*peers, strict=True)]
        return quotients(self._cells[SESSION, command, callers].per_second, best)

    def _peers(self, what: str, command: str, callers: int) -> list[tuple[float, ...]]:
        keys = [(peer, command, callers) for peer in PEERS]
        return [getattr(self._cells[key], what) for key in keys if key in self._cells]

    def goals(self) -> list[Goal]:
        """All four, for `true`."""
        p50, rate = "p50 of `true`, 1 caller", "commands/s of `true`, 32 callers"
        floor_p50 = self.latency_over_floor(SESSION, COMMAND, 1)
        floor_rate = self.rate_over_floor(SESSION, COMMAND, 32)
        peer_p50 = self.times_quicker_than_peers(COMMAND, 1)
        peer_rate = self.times_the_rate_of_peers(COMMAND, 32)
        return [
            Goal(f"{p50}: times the floor's", 3, True, floor_p50),
            Goal(f"{p50}: times faster than the best peer", 20, False, peer_p50),
            Goal(f"{rate}: times the best peer's", 25, False, peer_rate),
            Goal(f"{rate}: part of the floor's", 0.4, False, floor_rate),
        ]
