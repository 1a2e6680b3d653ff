"""Numbers of starts and the goal judged by them, without a cluster."""

import pytest

from tests.bench.pod import episode, pod_manifest
from tests.bench.readings import Spread
from tests.bench.start_report import Cell, StartReport
from tests.bench.started import is_running
from tests.bench.starts import (
    ATTACHED,
    COMMAND,
    PLAIN,
    READY,
    RUNNING,
    SESSION,
    plain,
)
from tests.bench.target import Target
from tests.cluster.episodes import is_ready

TARGET = Target("kubeconfig", "runner@sha256:1", "task@sha256:2")


def report(*over_s: float) -> StartReport:
    """One in which each repeat was a second slower, and the sandbox so much over plain."""
    ready = [[{READY: 1.0 + repeat}] * 3 for repeat, _ in enumerate(over_s)]
    first = [
        [{RUNNING: 0.5 + repeat, ATTACHED: 0.75 + repeat, COMMAND: 1.0 + repeat + over}] * 3
        for repeat, over in enumerate(over_s)
    ]
    cells = [Cell.of(PLAIN, 1, ready), Cell.of(SESSION, 1, first)]
    return StartReport({"repeats": len(over_s)}, {"cores": 2}, cells)


def test_what_it_costs_is_taken_within_a_repeat() -> None:
    measured = report(0.25, 0.5, 0.125)
    sandbox = measured.cells[1]
    assert measured.over_plain(sandbox) == Spread(0.25, 0.125, 0.5)
    assert sandbox.steps_s[ATTACHED] == (0.25, 0.25, 0.25)
    assert sandbox.samples == (3, 3, 3)


@pytest.mark.parametrize(
    ("over_s", "holds"), [((0.05, 0.4, 0.09), True), ((0.2, 0.05, 0.3), False)]
)
def test_the_goal(over_s: tuple[float, ...], holds: bool) -> None:
    (goal,) = report(*over_s).goals()
    assert goal.holds is holds


def test_a_start_quicker_than_the_plain_pod_is_shown() -> None:
    measured = report(-0.5)
    assert "-0.500" in list(measured.lines())[-1]
    assert [row.title for row in measured.tables()]


def test_the_plain_pod_has_the_same_image_and_resources() -> None:
    manifest = pod_manifest(episode("bench", "start-1", TARGET), TARGET)
    _, sandbox = manifest["spec"]["containers"]
    (container,) = plain(manifest)["spec"]["containers"]
    assert container["image"] == "task@sha256:2"
    assert container["resources"] == sandbox["resources"]
    assert container["command"] == ["sleep", "3600"]
    assert "initContainers" not in plain(manifest)["spec"]


def test_a_pod_that_is_gone_is_neither_ready_nor_running() -> None:
    assert not is_ready(None) and not is_running(None)
    assert is_ready({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
