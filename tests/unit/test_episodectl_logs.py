"""`episodectl logs` and the page of `episodectl ui`, over forwarded ports of two replicas."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from episode_operator.view import View
from episodectl.operators import connected
from episodectl.proxy import serve
from tests.fakes.port_forward import forwarding
from tests.unit import builders, records
from tests.unit.command_line import invoke, lines
from tests.unit.records import Cluster

EPISODE = "/namespaces/default/episodes/hello"
PODS = "/api/v1/namespaces/system/pods"
SAID: list[dict[str, Any]] = [
    {"role": "user", "content": "count"},
    {
        "role": "assistant",
        "content": "I count.\x1b[2J",
        "tool_calls": [
            {"id": "a", "function": {"name": "terminal", "arguments": '{"command":"seq 3"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "1\n2\n3"},
]


class World:
    """A cluster with two replicas; the second one drives the Episode `hello`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.said: list[dict[str, Any]] = list(SAID)

    def conversation(self, uid: str) -> list[dict[str, Any]] | None:
        return self.said if uid == builders.UID else None

    def add_pod(self, name: str, namespace: str = "system") -> None:
        labels = {
            "app.kubernetes.io/name": "episode-operator",
            "app.kubernetes.io/component": "operator",
        }
        metadata = {"name": name, "namespace": namespace, "uid": name, "labels": labels}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        status = {"phase": "Running"}
        self.cluster.server.objects[path] = {"metadata": metadata, "status": status}


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with records.cluster() as cluster:
        monkeypatch.setenv("KUBECONFIG", cluster.kubeconfig(tmp_path))
        found = World(cluster)
        idle = View(cluster.client, None, lambda uid: None).application
        busy = View(cluster.client, None, found.conversation).application
        async with TestServer(idle) as first, TestServer(busy) as second:
            assert first.port and second.port
            ports = {"first": first.port, "second": second.port}
            cluster.server.around = forwarding(ports)
            for name in ports:
                found.add_pod(name)
            yield found


async def test_the_messages_of_an_episode_at_work(world: World) -> None:
    world.cluster.add_episode()
    result = await invoke("logs", "hello")
    assert (result.exit_code, result.stderr) == (0, "")
    assert lines(result) == SAID


async def test_a_finished_one_needs_no_operator(world: World) -> None:
    world.cluster.add_episode()
    await world.cluster.add_result()
    world.cluster.server.around = forwarding({})
    result = await invoke("logs", "hello", "-f")
    assert result.exit_code == 0
    assert lines(result) == records.CONVERSATION


async def test_following_until_it_is_over(world: World) -> None:
    world.cluster.add_episode()
    world.said = records.CONVERSATION[:1]
    following = asyncio.create_task(invoke("logs", "hello", "-f"))
    await asyncio.sleep(1.5)
    world.said = records.CONVERSATION[:2]
    await asyncio.sleep(1.5)
    assert not following.done()
    await world.cluster.add_result()
    result = await following
    assert result.exit_code == 0
    assert lines(result) == records.CONVERSATION


async def test_replicas_without_a_view_say_so(world: World) -> None:
    world.cluster.add_episode()
    world.cluster.server.around = forwarding({"first": 0, "second": 0})
    result = await invoke("logs", "hello")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "connection refused" in result.stderr


@pytest.mark.parametrize(
    ("namespaces", "said"),
    [
        ([], "no operator runs in any namespace"),
        (["a", "b"], "operators run in namespaces a, b: choose one"),
    ],
)
async def test_which_operator(world: World, namespaces: list[str], said: str) -> None:
    world.cluster.add_episode()
    for name in ("first", "second"):
        del world.cluster.server.objects[f"{PODS}/{name}"]
    for namespace in namespaces:
        world.add_pod("first", namespace)
    result = await invoke("logs", "hello")
    assert result.exit_code == 2 and said in result.stderr


async def test_the_page_is_of_the_replica_that_knows_most(world: World) -> None:
    world.cluster.add_episode()
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with connected(world.cluster.client, None) as operators, aiohttp.ClientSession() as http:
        serving = asyncio.create_task(serve(operators, 0, on_ready=ready.set_result))
        url = await ready
        async with http.get(f"{url}{EPISODE[1:]}") as answer:
            text = await answer.text()
            assert answer.status == 200 and "seq 3" in text
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        async with http.get(f"{url}static/style.css") as answer:
            assert answer.status == 200 and answer.content_type == "text/css"
        async with http.get(url, headers={"Host": "attacker.example"}) as answer:
            assert answer.status == 403
        async with http.post(url) as answer:
            assert answer.status == 405
        serving.cancel()
        await asyncio.wait({serving})
