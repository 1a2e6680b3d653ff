"""One run of `start` as a table, as markdown and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tests.bench.readings import Spread, digits, percentile
from tests.bench.report import write_judged
from tests.bench.starts import PLAIN, SESSION, TITLES, Start
from tests.bench.verdicts import Goal

COLUMNS = ("at once", "what", "p50 s", "p95 s", "over plain, p50 s", "of it, p50 s", "starts")
MOST_SECONDS = 0.1


@dataclass(frozen=True)
class Cell:
    """One way to start, so many at once; all repeats, in the order they ran.

    Attributes:
        steps_s: from one thing seen on the way to the next, the p50 of each repeat.
    """

    way: str
    at_once: int
    p50_s: tuple[float, ...]
    p95_s: tuple[float, ...]
    steps_s: dict[str, tuple[float, ...]]
    samples: tuple[int, ...]

    @classmethod
    def of(cls, way: str, at_once: int, repeats: Sequence[Sequence[Start]]) -> "Cell":
        """From repeats of at least one start each."""
        ends = [[list(start.values())[-1] for start in starts] for starts in repeats]
        steps = [[_steps(start) for start in starts] for starts in repeats]
        return cls(
            way,
            at_once,
            p50_s=tuple(percentile(seconds, 50) for seconds in ends),
            p95_s=tuple(percentile(seconds, 95) for seconds in ends),
            steps_s={
                step: tuple(percentile((each[step] for each in taken), 50) for taken in steps)
                for step in steps[0][0]
            },
            samples=tuple(map(len, repeats)),
        )


def _steps(start: Start) -> dict[str, float]:
    earlier = [0.0, *start.values()]
    return {name: seconds - earlier[at] for at, (name, seconds) in enumerate(start.items())}


@dataclass(frozen=True)
class StartReport:
    """What was measured, how and where."""

    settings: dict[str, Any]
    machine: dict[str, Any]
    cells: Sequence[Cell]

    def over_plain(self, cell: Cell) -> Spread:
        """Seconds more than the plain pod's p50, repeat by repeat."""
        plain = next(c for c in self.cells if (c.way, c.at_once) == (PLAIN, cell.at_once))
        return Spread.of(ours - its for ours, its in zip(cell.p50_s, plain.p50_s, strict=True))

    def goals(self) -> list[Goal]:
        """That of the first command, one start at a time."""
        cell = next(c for c in self.cells if (c.way, c.at_once) == (SESSION, 1))
        text = "p50 of the first command over the plain pod's Ready, one at a time, s"
        return [Goal(text, MOST_SECONDS, True, self.over_plain(cell))]

    def tables(self) -> Iterator[Table]:
        """The one table."""
        title = f"starts: median (min..max) of {self.settings['repeats']} repeats"
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
        order = list(TITLES)
        for cell in sorted(self.cells, key=lambda cell: (cell.at_once, order.index(cell.way))):
            steps = (f"{step} {digits(Spread.of(s).median)}" for step, s in cell.steps_s.items())
            yield (
                str(cell.at_once),
                TITLES[cell.way],
                str(Spread.of(cell.p50_s)),
                str(Spread.of(cell.p95_s)),
                "" if cell.way == PLAIN else str(self.over_plain(cell)),
                ", ".join(steps) if len(cell.steps_s) > 1 else "",
                str(sum(cell.samples)),
            )
