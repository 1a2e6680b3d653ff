"""Repeated readings as numbers with their spread."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.bench.loop import Reading


@dataclass(frozen=True)
class Spread:
    """A number as its repeats gave it: the median, and between what they lay."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """Of at least one repeat."""
        known = list(values)
        return cls(statistics.median(known), min(known), max(known))

    def __str__(self) -> str:
        return f"{digits(self.median)} ({digits(self.least)}..{digits(self.most)})"


@dataclass(frozen=True)
class Cell:
    """One command by one path at one number of callers, all repeats, in the order they ran."""

    path: str
    command: str
    callers: int
    p50_ms: tuple[float, ...]
    p95_ms: tuple[float, ...]
    per_second: tuple[float, ...]
    client_cpu_ms: tuple[float, ...]
    samples: tuple[int, ...]
    failures: int
    failure: str

    @classmethod
    def of(cls, path: str, command: str, callers: int, readings: Sequence[Reading]) -> "Cell":
        """From at least one reading; each must have seen a command succeed."""
        counts = tuple(len(reading.latencies_ms) for reading in readings)
        return cls(
            path,
            command,
            callers,
            p50_ms=tuple(percentile(reading.latencies_ms, 50) for reading in readings),
            p95_ms=tuple(percentile(reading.latencies_ms, 95) for reading in readings),
            per_second=tuple(
                count / reading.seconds for count, reading in zip(counts, readings, strict=True)
            ),
            client_cpu_ms=tuple(
                reading.cpu_seconds / count * 1e3
                for count, reading in zip(counts, readings, strict=True)
            ),
            samples=counts,
            failures=sum(reading.failures for reading in readings),
            failure=next((reading.failure for reading in readings if reading.failure), ""),
        )


def percentile(values: Iterable[float], percent: float) -> float:
    """The nearest-rank percentile: a value that was really seen."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def quotients(above: Sequence[float], below: Sequence[float]) -> Spread:
    """The ratio, repeat by repeat: what slowed one repeat down slowed both sides of it down."""
    return Spread.of(a / b for a, b in zip(above, below, strict=True))


def digits(value: float) -> str:
    """Three significant digits, and all of the integer part."""
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"
