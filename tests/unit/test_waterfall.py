"""Where the time went: measured parts, and a first bar for what nothing measured."""

from datetime import UTC, datetime, timedelta

import pytest

from episode_operator.api.episode import Condition, EpisodeStatus
from episode_operator.api.reasons import ConditionType
from episode_operator.api.result import EpisodeResult, EpisodeResultStatus, Timings
from episode_operator.view.waterfall import Bar, of_result, of_status
from tests.unit import builders, records

START = datetime(2026, 11, 30, 12, tzinfo=UTC)


def result(seconds: float, **timings: float) -> EpisodeResult:
    spec = records.result_spec(
        started_at=START,
        finished_at=START + timedelta(seconds=seconds),
        timings=Timings(**timings),
    )
    return EpisodeResult(metadata={}, spec=spec, status=EpisodeResultStatus())


def test_measured_parts_follow_what_was_not_measured() -> None:
    found = of_result(
        result(
            30,
            sandbox_start_seconds=2,
            setup_seconds=1,
            agent_seconds=20,
            model_seconds=12,
            tool_seconds=5,
            verifier_seconds=3,
        )
    )
    assert found == [
        Bar("waiting, earlier attempts", 0, 4),
        Bar("sandbox start", 4, 2),
        Bar("setup", 6, 1),
        Bar("agent", 7, 20),
        Bar("model", 7, 12, part=True),
        Bar("tools", 19, 5, part=True),
        Bar("verifier", 27, 3),
    ]


def test_clocks_that_disagree_give_no_negative_bar() -> None:
    assert of_result(result(1, agent_seconds=2))[0].seconds == 0


@pytest.mark.parametrize(
    ("true", "bars"),
    [
        ({}, [Bar("starting", 0, 60)]),
        ({ConditionType.SANDBOX_READY: 5}, [Bar("starting", 0, 5), Bar("agent", 5, 55)]),
        (
            {ConditionType.SANDBOX_READY: 5, ConditionType.AGENT_COMPLETED: 40},
            [Bar("starting", 0, 5), Bar("agent", 5, 35), Bar("verifier", 40, 20)],
        ),
    ],
)
def test_an_episode_at_work(true: dict[ConditionType, float], bars: list[Bar]) -> None:
    conditions = [
        Condition(
            type=kind,
            status="True",
            reason="Because",
            last_transition_time=START + timedelta(seconds=seconds),
        )
        for kind, seconds in true.items()
    ]
    episode = builders.episode().model_copy(
        update={
            "metadata": {"creationTimestamp": START.isoformat()},
            "status": EpisodeStatus(conditions=conditions),
        }
    )
    assert of_status(episode, START + timedelta(seconds=60)) == bars
