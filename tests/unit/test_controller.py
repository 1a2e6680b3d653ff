"""The controller and its tasks against an API server without a cluster."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import aiohttp
import numpy as np
import pytest

from episode_operator.agent.report import AgentReport, Progress
from episode_operator.api.episode import Episode, EpisodeStatus
from episode_operator.api.reasons import AgentEnd, NoVerdictReason, Phase, Verdict
from episode_operator.api.result import EpisodeResult, WeightSpan
from episode_operator.controller import controller as controller_module
from episode_operator.controller import status
from episode_operator.controller.agents import AgentFactory
from episode_operator.controller.attempt import Attempt
from episode_operator.controller.controller import Alone, Controller
from episode_operator.controller.distillation import Distiller
from episode_operator.controller.models import ModelPool
from episode_operator.controller.queue import Cause
from episode_operator.controller.results import AttemptReport
from episode_operator.controller.shared import Shared
from episode_operator.controller.starts import Started
from episode_operator.controller.teachers import Teachers
from episode_operator.lifecycle.outcome import Failure, Outcome, Scored
from episode_operator.model.tokens import TokenRow
from episode_operator.results import writer
from episode_operator.sandbox.errors import SessionSuperseded
from episode_operator.sandbox.network import Cluster
from episode_operator.sandbox.pod import SandboxSettings
from tests.unit import builders, records
from tests.unit.spans import KeptSpans, attributes, ids


@pytest.fixture
async def cluster() -> AsyncIterator[records.Cluster]:
    async with records.cluster() as found:
        yield found


@pytest.fixture
async def shared(cluster: records.Cluster) -> AsyncIterator[Shared]:
    models = ModelPool(retry_seconds=1)
    async with aiohttp.ClientSession() as http:
        yield Shared(
            cluster.client,
            http,
            AgentFactory(models),
            Distiller(cluster.client, http, Teachers(models), None),
            SandboxSettings("runner"),
            Cluster(api_server=()),
            first_backoff_seconds=1,
            session_retry_seconds=1,
            store=None,
            spans=None,
        )
    await models.close()


def add(cluster: records.Cluster, name: str, **spec: Any) -> dict[str, Any]:
    """An Episode that was created now."""
    body = builders.episode(**spec).model_dump(mode="json", by_alias=True, exclude_none=True)
    body["metadata"] |= {
        "name": name,
        "uid": f"uid-{name}",
        "creationTimestamp": status.utc_now().isoformat(),
    }
    cluster.server.objects[cluster.path("episodes", name)] = body
    return body


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_start_is_told_to_the_episode_of_the_pod_alone(
    cluster: records.Cluster, shared: Shared
) -> None:
    controller = Controller(shared, Alone())
    episodes = [add(cluster, name) for name in ("one", "two")]
    try:
        for episode in episodes:
            await controller.episode_event("ADDED", episode)
        await until(lambda: all(episode["status"].get("podUid") for episode in episodes))
        uid = episodes[1]["status"]["podUid"]
        for namespace, pod in (("other", "two-a0"), ("default", "else-0"), ("default", "two-a0")):
            controller.sandbox_started(Started(namespace, pod, uid))
        await until(lambda: ready(episodes[1]) == "True")
        assert ready(episodes[0]) == "False"
    finally:
        await controller.close()


async def test_a_row_that_does_not_fit_together_ends_the_episode_without_it(
    cluster: records.Cluster, shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = TokenRow(
        tokens=np.array([10, 11], dtype=np.int32),
        mask=np.array([0, 1], dtype=np.bool_),
        logprobs=np.array([0, 2], dtype=np.float32),
        turn=np.array([0, 0], dtype=np.int16),
        versions=(),
        top=None,
    )
    spans = [WeightSpan(version="step-1", start=1, end=2)]
    agent = AgentReport(
        AgentEnd.NATURAL_FINISH, Progress(turns=2), records.CONVERSATION, row, spans
    )
    report = AttemptReport("pod-uid", "image", agent=agent)
    scored = Scored(Verdict.PASSED, 1.0, "TestsPassed")

    async def run(attempt: Attempt) -> Outcome:
        return Outcome(scored, report)

    monkeypatch.setattr(Attempt, "run", run)
    controller = Controller(shared, Alone())
    episode = add(cluster, "one")
    try:
        await controller.episode_event("ADDED", episode)
        await until(lambda: episode["status"].get("podUid") is not None)
        controller.sandbox_started(Started("default", "one-a0", episode["status"]["podUid"]))
        await until(lambda: "completionTime" in episode["status"])
    finally:
        await controller.close()
    told = episode["status"]
    assert (told["verdict"], told["reason"]) == ("NoVerdict", "ModelBadResponse")
    assert "reward" not in told
    assert "logprobs: " in told["message"] and "TestsPassed" in told["message"]
    result = await writer.load(cluster.client, namespace="default", name=told["resultName"])
    assert result is not None
    spec = result.spec
    assert (spec.verdict, spec.reward, spec.tokens) == (Verdict.NO_VERDICT, None, None)
    assert (spec.counts.turns, spec.counts.tokens, spec.weight_versions) == (2, 0, [])
    assert spec.messages is not None
    (event,) = [
        item for item in cluster.server.objects.values() if item.get("reason") == "ModelBadResponse"
    ]
    assert event["type"] == "Warning"


async def test_an_episode_is_one_trace(
    cluster: records.Cluster, shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first attempt fails while the agent acts, its second one is scored."""
    ends: Iterator[Scored | Failure] = iter(
        [Failure(NoVerdictReason.OOM_KILLED, "x"), Scored(Verdict.PASSED, 1.0, "TestsPassed")]
    )

    async def run(attempt: Attempt) -> Outcome:
        end = next(ends)
        with suppress(ValueError), attempt._trace.span("agent") as span:
            if isinstance(end, Failure):
                raise ValueError
            span.tell({})
        return Outcome(end, AttemptReport("pod-uid", "image"))

    monkeypatch.setattr(Attempt, "run", run)
    kept = KeptSpans()
    controller = Controller(replace(shared, spans=kept.export, first_backoff_seconds=0), Alone())
    episode = add(cluster, "one")
    episode["metadata"]["uid"] = builders.UID
    try:
        await controller.episode_event("ADDED", episode)
        for pod in ("one-a0", "one-a1"):
            await until(partial(recorded, episode, pod))
            assert list(controller.places()) == [(Phase.STARTING, Cause.START)]
            controller.sandbox_started(Started("default", pod, episode["status"]["podUid"]))
        await until(lambda: not controller.live())
    finally:
        await controller.close()
    assert list(controller.places()) == []
    assert kept.names() == ["agent", "attempt", "agent", "attempt", "episode"]
    root = kept.one("episode")
    attempts = [span for span in kept.all() if span.name == "attempt"]
    agents = [span for span in kept.all() if span.name == "agent"]
    assert {ids(span)[0] for span in kept.all()} == {UUID(builders.UID).int}
    assert [ids(span)[2] for span in attempts] == [ids(root)[1]] * 2
    assert [ids(span)[2] for span in agents] == [ids(span)[1] for span in attempts]
    failures = [span.status.description for span in (*attempts, *agents)]
    assert failures == ["OOMKilled", None] * 2
    assert attributes(root)["episode.attempts"] == 2
    assert attributes(root)["episode.reward"] == 1.0


async def test_a_result_that_was_deleted_is_no_reason_to_run_the_episode_again(
    cluster: records.Cluster, shared: Shared
) -> None:
    """It was deleted while it was distilled, and the operator started anew."""
    given = add(cluster, "one")
    result = EpisodeResult(metadata={"name": "one-result"}, spec=records.result_spec())
    episode = Episode.model_validate(given)
    given["status"] = status.distilling(episode, result, status.utc_now()).to_api()
    controller = Controller(shared, Alone())
    try:
        await controller.episode_event(None, given)
        await until(lambda: not controller.live())
    finally:
        await controller.close()
    told = EpisodeStatus.model_validate(given["status"])
    assert told.finished and told.completion_time is not None
    assert told.phase is Phase.FINISHED
    assert (told.verdict, told.reward, told.reason) == (Verdict.PASSED, 1.0, "TestsPassed")
    for kind in ("Finished", "Distilled"):
        (condition,) = [each for each in told.conditions if each.type == kind]
        assert condition.status == str(kind == "Finished")
        assert "EpisodeResult one-result" in condition.message
    assert cluster.server.kinds() == ["episodes", "events"]


class Shares:
    """Says what is this replica's."""

    def __init__(self, *owned: str) -> None:
        self.owned = set(owned)
        self.asked = 0

    def owns(self, uid: str) -> bool:
        return uid in self.owned

    async def refreshed(self) -> None:
        self.asked += 1


async def test_the_episodes_of_other_replicas_are_left_alone_until_they_are_ours(
    cluster: records.Cluster, shared: Shared
) -> None:
    shares = Shares("uid-one")
    controller = Controller(shared, shares)
    one, two, gone, over = (add(cluster, name) for name in ("one", "two", "gone", "over"))
    try:
        for episode in (one, two, gone, over):
            await controller.episode_event("ADDED", episode)
        await until(lambda: one["status"].get("podUid") is not None)
        assert set(controller.live()) == {"uid-one"}
        await controller.episode_event("DELETED", cluster.server.objects.pop(path(cluster, "gone")))
        finished = Episode.model_validate(over)
        result = EpisodeResult(metadata={"name": "result"}, spec=records.result_spec())
        over["status"] = status.finished(finished, result, status.utc_now()).to_api()
        shares.owned = {"uid-two", "uid-gone", "uid-over"}
        controller.rebalance()
        await until(lambda: two["status"].get("podUid") is not None)
        await until(lambda: set(controller.live()) == {"uid-two"})
        assert one["status"]["podName"] == "one-a0", "what it was given stays"
        shares.owned = {"uid-one", "uid-two"}
        controller.rebalance()
        await until(lambda: set(controller.live()) == {"uid-one", "uid-two"})
    finally:
        await controller.close()
    pods = [kind for kind in cluster.server.kinds() if kind == "pods"]
    assert len(pods) == 2


async def test_an_episode_that_is_ours_again_before_it_was_let_go_is_run(
    cluster: records.Cluster, shared: Shared
) -> None:
    shares = Shares("uid-one")
    controller = Controller(shared, shares)
    one = add(cluster, "one")
    try:
        await controller.episode_event("ADDED", one)
        await until(lambda: one["status"].get("podUid") is not None)
        shares.owned = set()
        controller.rebalance()
        shares.owned = {"uid-one"}
        controller.rebalance()
        await asyncio.sleep(0.05)
        await until(lambda: set(controller.live()) == {"uid-one"})
        controller.sandbox_started(Started("default", "one-a0", one["status"]["podUid"]))
        await until(lambda: ready(one) == "True")
    finally:
        await controller.close()


async def test_what_cannot_be_read_when_it_is_taken_over_is_asked_for_again(
    cluster: records.Cluster, shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_module, "_RESTART_SECONDS", (0.01, 0.01))
    shares = Shares()
    controller = Controller(shared, shares)
    one = add(cluster, "one")
    refused = 0

    def refuse(method: str, asked: str) -> tuple[int, str] | None:
        nonlocal refused
        if refused < 2 and asked == path(cluster, "one"):
            refused += 1
            return 403, "not now"
        return None

    try:
        await controller.episode_event("ADDED", one)
        cluster.server.refuse = refuse
        shares.owned = {"uid-one"}
        controller.rebalance()
        await until(lambda: one["status"].get("podUid") is not None)
        assert refused == 2
    finally:
        await controller.close()


@pytest.mark.parametrize("ours", [False, True])
async def test_another_session_in_the_pod_is_another_replicas(
    cluster: records.Cluster, shared: Shared, monkeypatch: pytest.MonkeyPatch, ours: bool
) -> None:
    """If it is not its Episode, nothing is said of it; if it is, another operator meddles."""
    monkeypatch.setattr(controller_module, "_RESTART_SECONDS", (0.01, 0.01))
    shares = Shares("uid-one")
    runs = 0

    async def run(attempt: Attempt) -> Outcome:
        nonlocal runs
        runs += 1
        if not ours:
            shares.owned = set()
        if runs == 1:
            raise SessionSuperseded("another session was opened")
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(Attempt, "run", run)
    controller = Controller(shared, shares)
    one = add(cluster, "one")
    try:
        await controller.episode_event("ADDED", one)
        await until(lambda: one["status"].get("podUid") is not None)
        controller.sandbox_started(Started("default", "one-a0", one["status"]["podUid"]))
        if ours:
            await until(lambda: runs == 2)
        else:
            await until(lambda: not controller.live())
    finally:
        await controller.close()
    told = [item["reason"] for item in cluster.server.objects.values() if "reason" in item]
    assert shares.asked == 1
    assert ("InternalError" in told) == ours
    assert "completionTime" not in one["status"]


def path(cluster: records.Cluster, name: str) -> str:
    return cluster.path("episodes", name)


def recorded(episode: dict[str, Any], pod: str) -> bool:
    told = episode.get("status", {})
    return told.get("podName") == pod and "podUid" in told


def ready(episode: dict[str, Any]) -> str:
    conditions = {each["type"]: each["status"] for each in episode["status"]["conditions"]}
    return str(conditions["SandboxReady"])
