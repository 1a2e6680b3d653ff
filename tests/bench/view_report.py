"""One run of `view` as a table, as markdown and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tests.bench.readings import Spread, quotients
from tests.bench.report import write_judged
from tests.bench.verdicts import Goal

EMPTY = "a page with nothing on it"
COLUMNS = ("page", "first paint s", "to an empty page")
MOST_SECONDS = 2.0


@dataclass(frozen=True)
class Cell:
    """One page; all repeats, in the order they ran."""

    page: str
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class ViewReport:
    """What was measured, how and where; the last cell is the largest page."""

    settings: dict[str, Any]
    machine: dict[str, Any]
    cells: Sequence[Cell]

    def goals(self) -> list[Goal]:
        """That of the largest page."""
        largest = self.cells[-1]
        text = f"first paint of {largest.page}, s"
        return [Goal(text, MOST_SECONDS, True, Spread.of(largest.seconds))]

    def tables(self) -> Iterator[Table]:
        """The one table."""
        title = f"first paint: median (min..max) of {self.settings['repeats']} repeats"
        table = Table(*COLUMNS, title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
        for row in self._rows():
            table.add_row(*row)
        yield table

    def lines(self) -> Iterator[str]:
        """The machine and the goal."""
        yield ", ".join(f"{key} {value}" for key, value in self.machine.items())
        yield from map(str, self.goals())

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write `name`.json and `name`.md into the folder."""
        return write_judged(folder, name, self, columns=COLUMNS, rows=self._rows())

    def _rows(self) -> Iterator[tuple[str, ...]]:
        empty = next(cell for cell in self.cells if cell.page == EMPTY)
        for cell in self.cells:
            ratio = quotients(cell.seconds, empty.seconds)
            yield cell.page, str(Spread.of(cell.seconds)), str(ratio)
