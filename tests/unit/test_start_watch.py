"""Listening for starts, over a watch that ends and fails."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from episode_operator.controller import starts
from episode_operator.controller.starts import Started, StartWatch
from episode_operator.kube.client import EVENTS, KubernetesClient
from episode_operator.kube.connection import KubernetesConnection

Answer = list[dict[str, Any]] | int


def event(uid: str) -> dict[str, Any]:
    pod = {"namespace": "space", "name": "hello-a0", "uid": uid}
    return {"type": "ADDED", "object": {"reason": "Started", "involvedObject": pod}}


@asynccontextmanager
async def server(*watches: Answer) -> AsyncIterator[tuple[KubernetesClient, list[dict[str, str]]]]:
    """One that answers each watch with the next of these, events or an HTTP status; then stays."""
    asked: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        assert re.fullmatch(r"/api/v1/namespaces/space(-\d+)?/events", request.path)
        if "watch" not in request.query:
            return web.json_response(
                {"metadata": {"resourceVersion": str(len(asked))}, "items": []}
            )
        asked.append(dict(request.query))
        now: Answer = watches[len(asked) - 1] if len(asked) <= len(watches) else []
        if isinstance(now, int):
            return web.json_response({"reason": "Expired", "message": "gone"}, status=now)
        response = web.StreamResponse()
        await response.prepare(request)
        for each in now:
            await response.write(orjson.dumps(each) + b"\n")
        if len(asked) > len(watches):
            await asyncio.sleep(60)
        return response

    async def headers() -> dict[str, str]:
        return {}

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as running:
        url = str(running.make_url("")).rstrip("/")
        async with KubernetesClient(KubernetesConnection(url, None, headers)) as client:
            yield client, asked


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


def deleted(uid: str) -> dict[str, Any]:
    return event(uid) | {"type": "DELETED"}


EXPIRED = {"type": "ERROR", "object": {"code": 410}}


@pytest.mark.parametrize(
    ("between", "uids"),
    [
        (410, "ac"),
        ([EXPIRED], "ac"),
        ([event("b"), EXPIRED], "abc"),
        ([], "ac"),
        ([deleted("a")], "ac"),
    ],
    ids=["refused", "expired", "expired after one", "ended", "a start's event was deleted"],
)
async def test_it_goes_on_after_a_watch_has_ended(
    monkeypatch: pytest.MonkeyPatch, between: Answer, uids: str
) -> None:
    monkeypatch.setattr(starts, "_PAUSE_SECONDS", 0.01)
    heard: list[Started] = []
    async with server([event("a")], between, [event("c")]) as (client, asked):
        listening = asyncio.create_task(StartWatch(client, ["space"], heard.append).run())
        await until(lambda: len(asked) == 4)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    assert heard == [Started("space", "hello-a0", uid) for uid in uids]
    assert [query["resourceVersion"] for query in asked] == ["0", "1", "2", "3"]
    assert {query["fieldSelector"] for query in asked} == {
        "reason=Started,involvedObject.fieldPath=spec.containers{sandbox}"
    }


async def test_many_watched_namespaces_leave_connections_for_requests() -> None:
    namespaces = [f"space-{number}" for number in range(100)]
    async with server() as (client, asked):
        listening = asyncio.create_task(StartWatch(client, namespaces, lambda _: None).run())
        await until(lambda: len(asked) == len(namespaces))
        async with asyncio.timeout(10):
            assert await client.list(EVENTS, "space") == []
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
