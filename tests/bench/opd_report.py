"""One run of `opd` as tables, as markdown and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tests.bench.opd_server import Counters, Runner
from tests.bench.opd_ways import BEFORE, SEED, TITLES
from tests.bench.payload_sizes import PayloadSize
from tests.bench.readings import Spread, digits, quotients
from tests.bench.report import write
from tests.bench.verdicts import Goal

WAY_COLUMNS = (
    "model runner",
    "way",
    "requests",
    "tokens computed",
    "per trajectory token",
    "to the seed's way",
    "tokens from the cache",
)
PAYLOAD_COLUMNS = (
    "payload",
    "MB in memory",
    "for each",
    "bytes",
    "as JSON",
    "as gzip JSON",
    "encode MB/s",
    "decode MB/s",
    "JSON and gzip MB/s",
)
MOST_PER_TOKEN = 1.2
MOST_DIFFERENCE = 1e-3


@dataclass(frozen=True)
class WayCell:
    """One way on a server with one runner; all repeats, in the order they ran."""

    runner: Runner
    way: str
    computed: tuple[int, ...]
    cached: tuple[int, ...]
    requests: tuple[int, ...]

    @classmethod
    def of(cls, runner: Runner, way: str, counted: Sequence[Counters]) -> "WayCell":
        """From at least one repeat."""
        return cls(
            runner,
            way,
            computed=tuple(one.computed for one in counted),
            cached=tuple(one.cached for one in counted),
            requests=tuple(one.requests for one in counted),
        )


@dataclass(frozen=True)
class PayloadCell:
    """One payload; MB/s of all repeats, in the order they ran. Sizes are always the same."""

    size: PayloadSize
    encode_rate: tuple[float, ...]
    decode_rate: tuple[float, ...]
    json_rate: tuple[float, ...]

    @classmethod
    def of(cls, repeats: Sequence[Sequence[PayloadSize]]) -> "list[PayloadCell]":
        """One for each payload, from at least one repeat."""
        return [
            cls(
                sizes[0],
                encode_rate=tuple(one.encode_rate for one in sizes),
                decode_rate=tuple(one.decode_rate for one in sizes),
                json_rate=tuple(one.json_rate for one in sizes),
            )
            for sizes in zip(*repeats, strict=True)
        ]


@dataclass(frozen=True)
class OpdReport:
    """What was measured, how and where. `differences`: the largest between the two runners' values
    of the same tokens, for each repeat.
    """

    settings: dict[str, Any]
    machine: dict[str, Any]
    ways: Sequence[WayCell]
    payloads: Sequence[PayloadCell]
    differences: Sequence[float]

    def per_token(self, cell: WayCell) -> Spread:
        """Tokens computed for each token of the trajectory."""
        return Spread.of(computed / self.settings["tokens"] for computed in cell.computed)

    def to_seed(self, cell: WayCell) -> Spread:
        """Tokens computed for each one that the seed's way computes on the same server."""
        seed = next(one for one in self.ways if (one.runner, one.way) == (cell.runner, SEED))
        return quotients(cell.computed, seed.computed)

    def goals(self) -> list[Goal]:
        """That of BeforeTurn on both runners, and that both give the same values."""
        text = "tokens computed per trajectory token, BeforeTurn"
        goals = [
            Goal(f"{text}, {cell.runner}", MOST_PER_TOKEN, True, self.per_token(cell))
            for cell in self.ways
            if cell.way == BEFORE
        ]
        same = "largest difference of a value between the runners"
        return [*goals, Goal(same, MOST_DIFFERENCE, True, Spread.of(self.differences))]

    def tables(self) -> Iterator[Table]:
        """What is computed, and the payloads."""
        repeats = f"median (min..max) of {self.settings['repeats']} repeats"
        for title, columns, rows in self._all():
            table = Table(
                *columns,
                title=f"{title}: {repeats}",
                title_justify="left",
                box=SIMPLE_HEAD,
                padding=0,
            )
            for row in rows:
                table.add_row(*row)
            yield table

    def lines(self) -> Iterator[str]:
        """The trajectory, the machine and the goals."""
        yield ", ".join(f"{key} {value}" for key, value in self.settings.items())
        yield ", ".join(f"{key} {value}" for key, value in self.machine.items())
        yield from map(str, self.goals())

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write `name`.json and `name`.md into the folder."""
        tables = ""
        for title, columns, rows in self._all():
            lines = [columns, ("---",) * len(columns), *rows]
            tables += f"{title}:\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)
            tables += "\n"
        said = "".join(f"- {line}\n" for line in self.lines())
        goals = [{**asdict(goal), "holds": goal.holds} for goal in self.goals()]
        found = {
            "settings": self.settings,
            "machine": self.machine,
            "goals": goals,
            "ways": [asdict(cell) for cell in self.ways],
            "payloads": [asdict(cell) for cell in self.payloads],
            "differences": list(self.differences),
        }
        return write(folder, name, tables + said, found)

    def _all(self) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
        yield "teacher tokens", WAY_COLUMNS, [self._way(cell) for cell in self.ways]
        yield "payloads", PAYLOAD_COLUMNS, [_payload(cell) for cell in self.payloads]

    def _way(self, cell: WayCell) -> tuple[str, ...]:
        return (
            cell.runner,
            TITLES[cell.way],
            _counts(cell.requests),
            _counts(cell.computed),
            str(self.per_token(cell)),
            "" if cell.way == SEED else f"x{self.to_seed(cell)}",
            _counts(cell.cached),
        )


def _counts(values: Sequence[int]) -> str:
    return f"{median(values):,.0f} ({min(values):,}..{max(values):,})"


def _payload(cell: PayloadCell) -> tuple[str, ...]:
    size = cell.size
    return (
        size.name,
        digits(size.raw_bytes / 1e6),
        size.unit,
        digits(size.encoded_bytes / size.values),
        digits(size.json_bytes / size.values),
        digits(size.gzip_bytes / size.values),
        str(Spread.of(cell.encode_rate)),
        str(Spread.of(cell.decode_rate)),
        str(Spread.of(cell.json_rate)),
    )
