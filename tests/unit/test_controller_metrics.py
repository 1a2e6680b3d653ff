"""Metrics of the operator: what is counted of Episodes, that labels are closed, that all are told.

Counted by the real registry.
"""

import asyncio
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, Counter, generate_latest
from prometheus_client.metrics import MetricWrapperBase

from episode_operator.agent import metrics as agent_metrics
from episode_operator.api.reasons import MalformedCallKind, NoVerdictReason, Phase, Verdict
from episode_operator.api.result import Counts
from episode_operator.controller import loop_lag, metrics, status
from episode_operator.controller.queue import Cause, cause_of
from episode_operator.lifecycle.outcome import Failure
from episode_operator.lifecycle.pods import PodView, view
from episode_operator.model import metrics as model_metrics
from episode_operator.sandbox import metrics as sandbox_metrics
from tests.unit import builders
from tests.unit.records import result_spec

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
ROW = re.compile(r"^\| `(episode_operator_\w+)` \| *([^|]*?) *\|", re.MULTILINE)
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
CLOSED = {
    "agent": "AgentKind",
    "cause": "Cause",
    "kind": "MalformedCallKind; prompt, sampled",
    "operation": "Operation; the operations of the session's protocol",
    "outcome": "TurnOutcome; metrics._outcome",
    "phase": "Phase; the parts of a result's timings",
    "reason": "NoVerdictReason; reasons of verdicts; reasons of ModelError's types",
    "resource": "the resources that the operator writes",
    "state": "DistillationState",
    "tool": "the toolsets' tools, and unknown_tool",
    "verb": "create, apply, replace, delete",
    "verdict": "Verdict",
}
"""Every label, and where its values come from: none is a name that a user or a model chose."""


def registered() -> dict[str, tuple[str, ...]]:
    """Names of the operator's metrics with those of their labels."""
    modules = (agent_metrics, metrics, model_metrics, sandbox_metrics)
    found = [value for module in modules for value in vars(module).values()]
    made = {
        f"{one._name}_total" if isinstance(one, Counter) else one._name: tuple(one._labelnames)
        for one in found
        if isinstance(one, MetricWrapperBase)
    }
    collected = {family.name: tuple(family.samples[0].labels) for family in collector().collect()}
    return {**made, **collected}


def collector(*places: tuple[Phase, Cause | None]) -> metrics.EpisodesCollector:
    return metrics.EpisodesCollector(lambda: places)


def test_malformed_calls_are_counted_by_kind() -> None:
    kinds = {"InvalidJSON": 1, "Truncated": 2}
    result = result_spec(
        verdict=Verdict.NO_VERDICT,
        reason="PodLost",
        counts=Counts(malformed_calls=3, malformed_calls_by_kind=kinds),
    )
    name = "episode_operator_malformed_calls_total"
    before = {kind: REGISTRY.get_sample_value(name, {"kind": kind}) or 0 for kind in kinds}
    metrics.finished(result)
    for kind, count in kinds.items():
        assert REGISTRY.get_sample_value(name, {"kind": kind}) == before[kind] + count
    assert set(kinds) <= set(MalformedCallKind)


def test_every_phase_and_cause_is_there_also_without_an_episode() -> None:
    registry = CollectorRegistry()
    node = (Phase.STARTING, Cause.NODE)
    registry.register(collector(node, node, (Phase.STARTING, Cause.QUOTA), (Phase.RUNNING, None)))
    lines = generate_latest(registry).decode().splitlines()
    samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    phases = {phase: {"Starting": 3, "Running": 1}.get(phase, 0) for phase in Phase}
    causes = {cause: {"Node": 2, "Quota": 1}.get(cause, 0) for cause in Cause}
    assert {name: float(value) for name, value in samples.items()} == {
        **{f'episode_operator_episodes{{phase="{one}"}}': n for one, n in phases.items()},
        **{f'episode_operator_episodes_waiting{{cause="{one}"}}': n for one, n in causes.items()},
    }


UNSCHEDULED = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}


FAILURE = Failure(NoVerdictReason.POD_LOST, "gone")


@pytest.mark.parametrize(
    ("pod", "cause"),
    [
        (None, Cause.CREATION),
        (view(builders.pod(conditions=[UNSCHEDULED])), Cause.NODE),
        (view(builders.pod(conditions=[UNSCHEDULED]), started=True), Cause.START),
        (view(builders.pod()), Cause.START),
    ],
)
def test_what_an_episode_waits_for(pod: PodView | None, cause: Cause) -> None:
    episode, now = builders.episode(), NOW.timestamp()
    assert cause_of(episode.status, pod, now) is cause
    assert cause_of(status.starting(episode, "hello-a0", NOW), pod, now) is cause


def test_what_keeps_a_pod_from_being_made() -> None:
    episode, now = builders.episode(), NOW.timestamp()
    assert cause_of(status.held_up(episode, "PodForbidden", "quota", NOW), None, now) is Cause.QUOTA
    failed = status.next_attempt(episode, FAILURE, NOW, pause=timedelta(seconds=10))
    assert cause_of(failed, None, now) is Cause.RETRY
    assert cause_of(failed, None, now + 10) is Cause.CREATION


def test_an_episode_that_runs_waits_for_nothing() -> None:
    episode = builders.episode()
    pod = view(builders.pod())
    running = status.ready(episode, pod, NOW)
    assert running.phase is Phase.RUNNING
    assert cause_of(running, pod, NOW.timestamp()) is None


def block(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_blocked_event_loop_is_seen() -> None:
    name = "episode_operator_event_loop_lag_seconds_sum"
    before = REGISTRY.get_sample_value(name) or 0
    measuring = asyncio.create_task(loop_lag.measure())
    await asyncio.sleep(0)
    block(0.4)
    await asyncio.sleep(0.01)
    measuring.cancel()
    seen = (REGISTRY.get_sample_value(name) or 0) - before
    assert 0.1 < seen < 5


@pytest.mark.parametrize(
    ("http_status", "outcome"),
    [
        (200, "Written"),
        (404, "Absent"),
        (409, "Conflict"),
        (422, "Refused"),
        (429, "Throttled"),
        (503, "Failed"),
        (0, "Failed"),
    ],
)
def test_writes_are_counted_by_what_came_of_them(http_status: int, outcome: str) -> None:
    labels = {"resource": "pods", "verb": "delete", "outcome": outcome}
    name = "episode_operator_api_writes_total"
    before = REGISTRY.get_sample_value(name, labels) or 0
    metrics.api_write("DELETE", "/api/v1/namespaces/pods/pods/configmaps", http_status)
    assert REGISTRY.get_sample_value(name, labels) == before + 1


def test_every_label_has_a_closed_set_of_values() -> None:
    labels = {label for names in registered().values() for label in names}
    assert labels == CLOSED.keys()


def test_every_metric_is_in_the_documentation_with_its_labels() -> None:
    section = PAGE.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    documented = {name: tuple(re.findall(r"`(\w+)`", cell)) for name, cell in ROW.findall(section)}
    assert documented == registered()
