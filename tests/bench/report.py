"""One run as a table for the terminal, as markdown and as JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tests.bench.paths import FLOOR, SESSION, TITLES
from tests.bench.readings import Cell, Spread, digits
from tests.bench.verdicts import COMMAND, Comparison, Goal

COLUMNS = (
    "callers",
    "path",
    "p50 ms",
    "p95 ms",
    "commands/s",
    "client CPU ms",
    "p50 to floor",
    "rate to floor",
    "p50 to best peer",
    "rate to best peer",
)


class Measured(Protocol):
    """What a measurement gives."""

    def tables(self) -> Iterator[Table]:
        """For the terminal."""

    def lines(self) -> Iterator[str]:
        """What is to be said besides: the machine, the goals."""

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write `name`.json and `name`.md into the folder."""


def write(folder: Path, name: str, markdown: str, data: dict[str, Any]) -> tuple[Path, Path]:
    """Write `name`.md and `name`.json into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / f"{name}.md", folder / f"{name}.json"
    files[0].write_text(markdown)
    files[1].write_text(json.dumps(data, indent=1) + "\n")
    return files


class Judged(Measured, Protocol):
    """A measurement of cells, with goals, that is shown as one table."""

    @property
    def settings(self) -> dict[str, Any]:
        """How it was measured."""

    @property
    def machine(self) -> dict[str, Any]:
        """On what."""

    @property
    def cells(self) -> Sequence[Any]:
        """What was measured: dataclasses."""

    def goals(self) -> list[Goal]:
        """What it must show."""


def write_judged(
    folder: Path,
    name: str,
    report: Judged,
    *,
    columns: Sequence[str],
    rows: Iterator[tuple[str, ...]],
) -> tuple[Path, Path]:
    """Write its table, goals and cells as `name`.md and `name`.json into the folder."""
    lines = [columns, ("---",) * len(columns), *rows]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    said = "".join(f"- {line}\n" for line in report.lines())
    found = {
        "settings": report.settings,
        "machine": report.machine,
        "goals": [{**asdict(goal), "holds": goal.holds} for goal in report.goals()],
        "cells": [asdict(cell) for cell in report.cells],
    }
    return write(folder, name, f"{table}\n{said}", found)


@dataclass(frozen=True)
class Report:
    """What was measured, how and where."""

    settings: dict[str, Any]
    machine: dict[str, Any]
    cells: Sequence[Cell]

    @property
    def comparison(self) -> Comparison:
        """The ratios and goals of this run."""
        return Comparison(self.cells)

    def tables(self) -> Iterator[Table]:
        """A table for each command."""
        for command in self._commands():
            repeats = self.settings["repeats"]
            title = f"`{command}`: median (min..max) of {repeats} repeats"
            table = Table(*COLUMNS, title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
            for row in self._rows(command):
                table.add_row(*row)
            yield table

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write `name`.json and `name`.md into the folder."""
        return write(folder, name, self._markdown(), self._json())

    def lines(self) -> Iterator[str]:
        """The machine, the goals, and the commands that failed."""
        yield ", ".join(f"{key} {value}" for key, value in self.machine.items())
        yield from map(str, self.comparison.goals())
        fair = self.comparison.times_any_rate_of_peers(COMMAND, 32)
        yield f"and {fair} times the best peer's at that peer's own best number of callers"
        for cell in self.cells:
            if cell.failures:
                where = f"{cell.path}, {cell.command}, {cell.callers} callers"
                yield f"{cell.failures} commands failed ({where}): {cell.failure[:300]}"

    def _commands(self) -> list[str]:
        return list(dict.fromkeys(cell.command for cell in self.cells))

    def _rows(self, command: str) -> Iterator[tuple[str, ...]]:
        compared = self.comparison
        for cell in sorted(
            (cell for cell in self.cells if cell.command == command),
            key=lambda cell: (cell.callers, list(TITLES).index(cell.path)),
        ):
            ratios = ["", "", "", ""]
            where = (command, cell.callers)
            if cell.path != FLOOR:
                ratios[0] = _times(compared.latency_over_floor(cell.path, *where))
                ratios[1] = _times(compared.rate_over_floor(cell.path, *where))
            if cell.path == SESSION:
                ratios[2] = f"1/{digits(compared.times_quicker_than_peers(*where).median)}"
                ratios[3] = _times(compared.times_the_rate_of_peers(*where))
            numbers = (cell.p50_ms, cell.p95_ms, cell.per_second)
            cpu = "" if cell.path == FLOOR else str(Spread.of(cell.client_cpu_ms))
            measured = (*(str(Spread.of(values)) for values in numbers), cpu)
            yield (str(cell.callers), TITLES[cell.path], *measured, *ratios)

    def _markdown(self) -> str:
        parts = []
        for command in self._commands():
            rows = [COLUMNS, ("---",) * len(COLUMNS), *self._rows(command)]
            parts.append(f"`{command}`, median (min..max) of {self.settings['repeats']} repeats:\n")
            parts.append("\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n")
        parts.append("\n".join(f"- {line}" for line in self.lines()) + "\n")
        return "\n".join(parts)

    def _json(self) -> dict[str, Any]:
        goals = [{**asdict(goal), "holds": goal.holds} for goal in self.comparison.goals()]
        cells = [asdict(cell) for cell in self.cells]
        return {
            "settings": self.settings,
            "machine": self.machine,
            "goals": goals,
            "cells": cells,
        }


def _times(ratio: Spread) -> str:
    return f"x{digits(ratio.median)}"
