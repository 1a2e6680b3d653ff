"""What one run makes and takes away, against an API server on the loopback without an operator."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from episode_operator.kube.client import KubernetesClient
from episode_operator.kube.connection import KubernetesConnection
from episodectl import episodes
from episodectl.golden import GoldenRunner
from episodectl.outcome import Mark
from tests.fakes.kubernetes_server import KubernetesServer
from tests.unit import task_folders
from trainer_bridge.sources import Options, Task, Unreadable, load

EPISODES = "/apis/episodes.dev/v1alpha1/namespaces/space/episodes/"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "_POLL_SECONDS", 0.0)


@pytest.fixture
async def server() -> AsyncIterator[KubernetesServer]:
    async with KubernetesServer.running() as running:
        yield running


@pytest.fixture
async def runner(server: KubernetesServer) -> AsyncIterator[GoldenRunner]:
    async def headers() -> dict[str, str]:
        return {}

    connection = KubernetesConnection(base_url=server.url, ssl=None, headers=headers)
    async with KubernetesClient(connection) as client:
        yield GoldenRunner(client, namespace="space", run="r", seconds=9, keep=False)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    [found] = load(task_folders.harbor(tmp_path / "Hello_World"), Options(environ={}))
    assert not isinstance(found, Unreadable)
    return found


def finish(server: KubernetesServer, seen: list[list[str]], **status: Any) -> None:
    """An operator that finishes every Episode at once, and notes what there is then."""

    def on_get(path: str) -> None:
        seen.append(server.kinds())
        if path.startswith(EPISODES):
            finished = {"type": "Finished", "status": "True", "reason": "x"}
            condition = {**finished, "lastTransitionTime": "2026-11-29T10:00:09Z"}
            server.objects[path]["status"] = {"conditions": [condition], **status}

    server.on_get = on_get


async def test_files_come_before_the_episode_and_all_goes_away(
    server: KubernetesServer, runner: GoldenRunner, task: Task
) -> None:
    seen: list[list[str]] = []
    finish(server, seen, verdict="NoVerdict", reason="OOMKilled")
    outcome = await runner.run(3, task)
    assert (outcome.mark, outcome.reason) == (Mark.ERR, "OOMKilled")
    assert outcome.episode == "golden-r-3-hello-world"
    assert seen[0] == ["configmaps", "configmaps", "episodes"]
    assert server.objects == {}


async def test_a_namespace_without_operator(
    server: KubernetesServer, runner: GoldenRunner, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episodes, "_UPTAKE_SECONDS", 0.0)
    outcome = await runner.run(0, task)
    assert (outcome.mark, outcome.reason) == (Mark.ERR, "NotTakenUp")
    assert "does it watch namespace space?" in outcome.message
    assert server.objects == {}


async def test_an_episode_that_never_ends(
    server: KubernetesServer, runner: GoldenRunner, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episodes, "_OVERTIME_SECONDS", -1e9)
    outcome = await runner.run(0, task)
    assert (outcome.mark, outcome.reason) == (Mark.ERR, "NotFinished")
    assert server.objects == {}


async def test_an_episode_that_somebody_deletes(
    server: KubernetesServer, runner: GoldenRunner, task: Task
) -> None:
    def delete(path: str) -> None:
        server.objects.pop(path, None)

    server.on_get = delete
    outcome = await runner.run(0, task)
    assert (outcome.mark, outcome.reason) == (Mark.ERR, "EpisodeDeleted")
    assert server.objects == {}


async def test_an_episode_that_is_refused(
    server: KubernetesServer, runner: GoldenRunner, task: Task
) -> None:
    server.refuse = lambda method, path: (
        (422, "spec.x: wrong") if method == "POST" and path.endswith("/episodes") else None
    )
    outcome = await runner.run(0, task)
    assert (outcome.mark, outcome.reason) == (Mark.ERR, "ApiError")
    assert "spec.x: wrong" in outcome.message
    assert server.objects == {}


async def test_what_cannot_be_deleted_is_told(
    server: KubernetesServer, runner: GoldenRunner, task: Task
) -> None:
    finish(server, [], verdict="NoVerdict")
    server.refuse = lambda method, path: (
        (403, "no") if method == "DELETE" and "/configmaps/" in path else None
    )
    await runner.run(0, task)
    assert server.kinds() == ["configmaps", "configmaps"]
    assert [line.split()[0] for line in runner.leftovers] == ["configmaps", "configmaps"]


async def test_a_run_that_is_cut_off_takes_away_what_it_made(
    server: KubernetesServer, runner: GoldenRunner, task: Task
) -> None:
    waiting = asyncio.Event()
    server.on_get = lambda path: waiting.set()
    running = asyncio.ensure_future(runner.run(0, task))
    await waiting.wait()
    assert "episodes" in server.kinds()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert server.objects == {}
