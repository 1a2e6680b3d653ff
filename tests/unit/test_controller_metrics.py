"""What is counted of a finished Episode."""

from datetime import UTC, datetime

from prometheus_client import generate_latest

from episode_operator.api.agent import AgentKind
from episode_operator.api.reasons import MalformedCallKind, Verdict
from episode_operator.api.result import Counts, EpisodeReference, EpisodeResultSpec
from episode_operator.controller import metrics


def test_malformed_calls_are_counted_by_kind() -> None:
    now = datetime.now(UTC)
    result = EpisodeResultSpec(
        episode=EpisodeReference(name="a", uid="u"),
        verdict=Verdict.NO_VERDICT,
        reason="PodLost",
        harness="pytest",
        agent_kind=AgentKind.MODEL,
        image="i",
        counts=Counts(
            malformed_calls=3, malformed_calls_by_kind={"InvalidJSON": 1, "Truncated": 2}
        ),
        started_at=now,
        finished_at=now,
    )
    metrics.finished(result)
    lines = generate_latest().decode().splitlines()
    name = "episode_operator_malformed_calls_total"
    assert f'{name}{{kind="InvalidJSON"}} 1.0' in lines
    assert f'{name}{{kind="Truncated"}} 2.0' in lines
    assert set(result.counts.malformed_calls_by_kind) <= set(MalformedCallKind)
