"""When the chart's alerts fire, what they say then, and when they do not."""

import subprocess
from pathlib import Path

import pytest

from tests.chart import rules
from tests.chart.queries import alerts
from tests.chart.rules import BRIDGE, OPERATOR, VLLM, Case, series
from tests.testbed import packages


def finished(verdict: str, service: str = OPERATOR) -> str:
    return series("episode_operator_episodes_finished_total", service, verdict=verdict)


def episodes(phase: str) -> str:
    return series("episode_operator_episodes", OPERATOR, phase=phase)


def lag(*, late_each_minute: int) -> dict[str, str]:
    """240 wake-ups in a minute, of which so many come between 1 and 3 seconds late."""
    bucket = "episode_operator_event_loop_lag_seconds_bucket"
    in_time = f"0+{240 - late_each_minute}x60"
    counts = {"0.3": in_time, "1": in_time, "3": "0+240x60", "+Inf": "0+240x60"}
    return {series(bucket, OPERATOR, le=le): values for le, values in counts.items()}


def down(alert: str, service: str, minutes: int) -> list[Case]:
    """It fires where the target is not reached, or not there at all."""
    up = series("up", service)
    return [
        Case(alert, {up: "1x10 0x60"}, f"{11 + minutes}m", ()),
        Case(alert, {}, f"{minutes}m", ()),
        Case(alert, {up: "1x10 0x60"}, f"{10 + minutes}m"),
        Case(alert, {up: "1x60"}, "60m"),
        Case(alert, {up: "0x60", up.replace("-0", "-1"): "1x60"}, "60m"),
        Case(alert, {series("up", "another"): "1x60"}, f"{minutes}m", ()),
    ]


NO_VERDICT = "EpisodeNoVerdictShareHigh"
STUCK = "EpisodesStuck"
LAG = "EpisodeOperatorEventLoopLag"
UNKNOWN = "TrainerBridgeDeliveryUnknown"
LEAKED = "EpisodeObjectsLeaked"

NO_VERDICTS = finished("NoVerdict")
PASSED = finished("Passed")
RUNNING = episodes("Running")
UNKNOWNS = series("trainer_bridge_groups_total", BRIDGE, outcome="Unknown")
LEAKS = series("episode_operator_leaked_objects_total", OPERATOR, resource="pods")

CASES = {
    "a third has no verdict": Case(
        NO_VERDICT, {NO_VERDICTS: "0+1x60", PASSED: "0+2x60"}, "45m", ("33.33%",)
    ),
    "none has a verdict": Case(NO_VERDICT, {NO_VERDICTS: "0+1x60"}, "45m", ("100%",)),
    "one in twenty has no verdict": Case(
        NO_VERDICT, {NO_VERDICTS: "0+1x60", PASSED: "0+19x60"}, "45m"
    ),
    "a third, of less than ten": Case(
        NO_VERDICT, {NO_VERDICTS: "0+0.1x60", PASSED: "0+0.2x60"}, "45m"
    ),
    "a third, for less than ten minutes": Case(
        NO_VERDICT, {NO_VERDICTS: "0x30 0+10x30", PASSED: "0+1x60"}, "40m"
    ),
    "a third, and better again": Case(
        NO_VERDICT, {NO_VERDICTS: "0+1x30 30x60", PASSED: "0+2x90"}, "75m"
    ),
    "another release's have no verdict": Case(
        NO_VERDICT, {finished("NoVerdict", "another"): "0+1x60", PASSED: "0+1x60"}, "45m"
    ),
    "none finishes for three hours": Case(STUCK, {RUNNING: "3x300", PASSED: "7x300"}, "4h", ("3",)),
    "the first ones do not finish": Case(
        STUCK, {episodes("Starting"): "2x300", RUNNING: "1x300"}, "4h", ("3",)
    ),
    "none finishes for less than three hours": Case(
        STUCK, {RUNNING: "3x300", PASSED: "7x300"}, "3h"
    ),
    "one finishes after two hours": Case(STUCK, {RUNNING: "3x300", PASSED: "7x120 8x180"}, "4h"),
    "all are finished": Case(
        STUCK, {RUNNING: "0x300", episodes("Finished"): "5x300", PASSED: "7x300"}, "4h"
    ),
    "one wake-up in twenty is late": Case(LAG, lag(late_each_minute=12), "30m", ("2.6s",)),
    "one wake-up in twenty, for less than ten minutes": Case(LAG, lag(late_each_minute=12), "9m"),
    "one wake-up in 240 is late": Case(LAG, lag(late_each_minute=1), "30m"),
    "a delivery becomes Unknown": Case(UNKNOWN, {UNKNOWNS: "0x30 1x60"}, "60m", ("1",)),
    "the first delivery is Unknown": Case(UNKNOWN, {UNKNOWNS: "_x30 1x60"}, "40m", ("1",)),
    "a delivery was Unknown two hours ago": Case(UNKNOWN, {UNKNOWNS: "0x30 1x180"}, "150m"),
    "the only delivery was Unknown two hours ago": Case(UNKNOWN, {UNKNOWNS: "_x30 1x180"}, "150m"),
    "deliveries arrive": Case(UNKNOWN, {UNKNOWNS.replace("Unknown", "Delivered"): "0+1x60"}, "60m"),
    "an operator's error": Case(
        "EpisodeOperatorInternalErrors",
        {series("episode_operator_internal_errors_total", OPERATOR): "0x30 1x60"},
        "35m",
        (),
    ),
    "an operator's error of long ago": Case(
        "EpisodeOperatorInternalErrors",
        {series("episode_operator_internal_errors_total", OPERATOR): "0x30 1x60"},
        "60m",
    ),
    "a bridge's error": Case(
        "TrainerBridgeInternalErrors",
        {series("trainer_bridge_internal_errors_total", BRIDGE): "0x30 1x60"},
        "35m",
        (),
    ),
    "a bridge's error of long ago": Case(
        "TrainerBridgeInternalErrors",
        {series("trainer_bridge_internal_errors_total", BRIDGE): "0x30 1x60"},
        "60m",
    ),
    "another pod is leaked": Case(
        LEAKED, {LEAKS: "1x90 2x60"}, "100m", ("pods",), {"resource": "pods"}
    ),
    "the first pod is leaked": Case(
        LEAKED, {LEAKS: "_x30 1x60"}, "40m", ("pods",), {"resource": "pods"}
    ),
    "pods were leaked long ago": Case(LEAKED, {LEAKS: "_x30 1x180"}, "150m"),
    **{
        f"{alert} {number}": case
        for alert, service, minutes in (
            ("EpisodeOperatorDown", OPERATOR, 5),
            ("TrainerBridgeDown", BRIDGE, 10),
            ("VllmDown", VLLM, 15),
        )
        for number, case in enumerate(down(alert, service, minutes))
    },
}


@pytest.fixture(scope="session")
def promtool() -> str:
    """Prometheus' own tool, from Debian's package."""
    return packages.program("promtool", "prometheus", print)


def test_promtool_takes_the_rules(promtool: str, tmp_path: Path) -> None:
    file = rules.write(tmp_path)
    ran = subprocess.run(
        [promtool, "check", "rules", "--lint-fatal", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"SUCCESS: {len(alerts())} rules found" in ran.stdout


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_when_it_should(promtool: str, tmp_path: Path, name: str) -> None:
    assert rules.judge(promtool, tmp_path, CASES[name]) == ""


@pytest.mark.parametrize("fires", [True, False])
def test_every_alert_is_tried(fires: bool) -> None:
    tried = {case.alert for case in CASES.values() if (case.told is not None) is fires}
    assert tried == {one["alert"] for one in alerts()}


def test_a_wrong_expectation_is_seen(promtool: str, tmp_path: Path) -> None:
    """What `judge` says is promtool's own judgement, so that the cases above can fail."""
    right = CASES["a third has no verdict"]
    wrong = Case(right.alert, right.series, right.at, ("12%",))
    assert "got" in rules.judge(promtool, tmp_path, wrong)
    assert "got" in rules.judge(promtool, tmp_path, Case(right.alert, right.series, right.at))
