"""Numbers of a run and the goals judged by them, without a cluster."""

import asyncio

import pytest

from tests.bench.loop import Load, Reading, closed_loop
from tests.bench.paths import FLOOR, HARBOR, SESSION, STREAM
from tests.bench.readings import Cell, Spread, digits, percentile
from tests.bench.report import Report
from tests.bench.verdicts import Comparison


def cell(path: str, callers: int, *latencies_ms: float, seconds: float = 1.0) -> Cell:
    """A cell of `true` in which each repeat saw one latency, 10 times."""
    readings = [Reading([value] * 10, seconds, 0.02, 0, "") for value in latencies_ms]
    return Cell.of(path, "true", callers, readings)


def run(*, session_ms: float = 2.0, session_seconds: float = 1.0) -> list[Cell]:
    """A run of two repeats whose second was twice as slow, on all paths alike."""
    slow = 2 * session_ms
    return [
        cell(FLOOR, 1, 1.0, 2.0),
        cell(SESSION, 1, session_ms, slow),
        cell(STREAM, 1, 60.0, 120.0),
        cell(HARBOR, 1, 50.0, 200.0),
        cell(FLOOR, 32, 1.0, 2.0, seconds=0.5),
        cell(SESSION, 32, session_ms, slow, seconds=session_seconds),
        cell(STREAM, 32, 60.0, 60.0, seconds=40.0),
        cell(HARBOR, 32, 60.0, 60.0, seconds=50.0),
    ]


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 2.0), (95, 4.0), (100, 4.0), (1, 1.0)], ids=str
)
def test_percentile_is_a_value_that_was_seen(percent: float, expected: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], percent) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0123, "0.0123"), (1.234, "1.23"), (12.34, "12.3"), (1466.4, "1,466")],
)
def test_digits(value: float, text: str) -> None:
    assert digits(value) == text


def test_ratios_are_taken_within_a_repeat() -> None:
    compared = Comparison(run())
    assert compared.latency_over_floor(SESSION, "true", 1) == Spread(2.0, 2.0, 2.0)
    assert compared.times_quicker_than_peers("true", 1) == Spread(27.5, 25.0, 30.0)
    assert compared.times_the_rate_of_peers("true", 32) == Spread(40.0, 40.0, 40.0)
    assert compared.times_any_rate_of_peers("true", 32) == Spread(1.0, 1.0, 1.0)
    assert compared.rate_over_floor(SESSION, "true", 32) == Spread(0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("cells", "holding"),
    [
        (run(), [True, True, True, True]),
        (run(session_ms=3.5), [False, False, True, True]),
        (run(session_seconds=2.0), [True, True, False, False]),
        ([each for each in run() if each.path != HARBOR], [True, True, True, True]),
    ],
    ids=["good", "slow", "few", "without harbor"],
)
def test_goals(cells: list[Cell], holding: list[bool]) -> None:
    goals = Comparison(cells).goals()
    assert [goal.holds for goal in goals] == holding
    assert [str(goal).startswith("holds") for goal in goals] == holding


def test_report_names_failures() -> None:
    readings = [Reading([60.0], 1.0, 0.1, 3, "exit code 1"), Reading([60.0], 1.0, 0.1, 0, "")]
    failing = Cell.of(STREAM, "true", 8, readings)
    others = [cell(FLOOR, 8, 1.0, 1.0), cell(SESSION, 8, 2.0, 2.0)]
    report = Report({"repeats": 2}, {"cores": 2}, [*run(), failing, *others])
    assert "3 commands failed (stream, true, 8 callers): exit code 1" in report.lines()


async def test_closed_loop_counts_what_ends_in_the_window() -> None:
    async def run_once(caller: int) -> str | None:
        await asyncio.sleep(0)
        return "refused" if caller == 0 else None

    reading = await closed_loop(run_once, Load(("true",), 2, 0.0, 0.01))
    assert reading.failure == "refused" and reading.failures > 0
    assert len(reading.latencies_ms) >= 20 and reading.seconds >= 0.01
