"""One run of `bridge` as a table, as markdown and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tests.bench.bridge_ways import ATROPOS, OURS, RAW, READY
from tests.bench.readings import Spread, digits, quotients
from tests.bench.report import write_judged
from tests.bench.verdicts import Goal

COLUMNS = ("to", "group", "MB", "way", "groups/s", "MB/s", "to ready bytes")
LEAST_PART = 0.8


@dataclass(frozen=True)
class Cell:
    """One way to send a group to a server; all repeats, in the order they ran.

    Attributes:
        body_bytes: size of its JSON; MB/s are of these, whether compressed or not.
        seconds: for one group.
    """

    server: str
    group: str
    way: str
    body_bytes: int
    seconds: tuple[float, ...]

    @property
    def per_second(self) -> Spread:
        """Groups."""
        return Spread.of(1 / each for each in self.seconds)

    @property
    def rate(self) -> Spread:
        """MB/s."""
        return Spread.of(self.body_bytes / each / 1e6 for each in self.seconds)


@dataclass(frozen=True)
class BridgeReport:
    """What was measured, how and where."""

    settings: dict[str, Any]
    machine: dict[str, Any]
    cells: Sequence[Cell]

    def to_ready(self, cell: Cell) -> Spread:
        """Part of the rate of ready bytes, repeat by repeat."""
        ready = next(
            one
            for one in self.cells
            if (one.server, one.group, one.way) == (cell.server, cell.group, READY.title)
        )
        return quotients(ready.seconds, cell.seconds)

    def goals(self) -> list[Goal]:
        """Those of the sink without compression."""
        return [
            Goal(
                f"encode and POST to {cell.server}, {cell.group}: part of the rate of ready bytes",
                LEAST_PART,
                False,
                self.to_ready(cell),
            )
            for server in (ATROPOS, RAW)
            for cell in self.cells
            if (cell.server, cell.way) == (server, OURS.title)
        ]

    def tables(self) -> Iterator[Table]:
        """The one table."""
        title = f"groups sent: median (min..max) of {self.settings['repeats']} repeats"
        table = Table(*COLUMNS, title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
        for row in self._rows():
            table.add_row(*row)
        yield table

    def lines(self) -> Iterator[str]:
        """The groups, the machine and the goals."""
        yield ", ".join(f"{key} {value}" for key, value in self.settings.items())
        yield ", ".join(f"{key} {value}" for key, value in self.machine.items())
        yield from map(str, self.goals())

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write `name`.json and `name`.md into the folder."""
        return write_judged(folder, name, self, columns=COLUMNS, rows=self._rows())

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for cell in self.cells:
            yield (
                cell.server,
                cell.group,
                digits(cell.body_bytes / 1e6),
                cell.way,
                str(cell.per_second),
                str(cell.rate),
                "" if cell.way == READY.title else f"x{self.to_ready(cell)}",
            )
