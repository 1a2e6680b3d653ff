"""How `bridge` is judged, and that what it compares with does what it says."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.bench.bridge_report import BridgeReport, Cell
from tests.bench.bridge_ways import (
    ATROPOS,
    DISTILLED,
    OURS,
    PLAIN,
    RAW,
    RAW_SERVER,
    READY,
    SCORED,
    Load,
    Server,
)
from tests.bench.readings import Spread
from tests.ports import free_port, listening


def report(*seconds: float) -> BridgeReport:
    """One in which ready bytes take 8 s in each repeat."""
    cells = []
    for server in (RAW, ATROPOS):
        ours = seconds if server == ATROPOS else (20.0,) * len(seconds)
        ready = (8.0,) * len(seconds)
        cells.append(Cell(server, PLAIN, READY.title, 1_000_000, ready))
        cells.append(Cell(server, PLAIN, OURS.title, 1_000_000, ours))
    return BridgeReport({"repeats": len(seconds)}, {"cores": 2}, cells)


@pytest.mark.parametrize(("seconds", "holds"), [((9.0, 10.0, 90.0), True), ((10.1,), False)])
def test_the_goal_is_judged_by_the_median(seconds: tuple[float, ...], holds: bool) -> None:
    real, raw = report(*seconds).goals()
    assert (real.holds, raw.holds) == (holds, False)
    assert ATROPOS in real.text and RAW in raw.text


def test_rates_are_of_the_json() -> None:
    measured = report(8.0, 16.0, 32.0)
    cell = measured.cells[-1]
    assert cell.per_second == Spread(1 / 16, 1 / 32, 1 / 8)
    assert cell.rate == Spread(1 / 16, 1 / 32, 1 / 8)  # of one MB
    assert measured.to_ready(cell) == Spread(0.5, 0.25, 1.0)


def test_the_report_is_written_whole(tmp_path: Path) -> None:
    markdown, data = (file.read_text() for file in report(10.0).write(tmp_path, "bench-bridge"))
    assert (
        "| Atropos | plain | 1.00 | our sink: encode and POST | 0.100 (0.100..0.100) |" in markdown
    )
    assert "holds" in markdown and "MISSED" in markdown
    found = json.loads(data)
    assert [one["holds"] for one in found["goals"]] == [True, False]
    assert found["cells"][-1]["seconds"] == [10.0]
    assert len(list(report(10.0).tables())) == 1


def test_groups_are_as_large_as_they_are_said_to_be() -> None:
    plain, distilled = Load.all()
    assert (plain.name, distilled.name) == (PLAIN, DISTILLED)
    assert not plain.group.distilled
    for record in distilled.group.members:
        assert record.distillation is not None
        assert record.distillation.token_ids.shape == (SCORED, 50)


async def test_both_ways_arrive_at_the_server_that_only_reads() -> None:
    port = free_port()
    program = await asyncio.create_subprocess_exec(sys.executable, str(RAW_SERVER), str(port))
    try:
        await listening(port)
        load = Load.all()[0]
        for way in (READY, OURS):
            assert 0 < await Server(RAW, port).seconds(way, load) < 10
    finally:
        program.kill()
        await program.wait()
