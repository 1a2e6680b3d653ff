"""Forwarded ports: bytes both ways, and why it does not work where it does not."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from episode_operator.kube.client import ApiError
from episode_operator.kube.port_forward import forwarded
from tests.fakes.kubernetes_server import KubernetesServer
from tests.fakes.port_forward import forwarding
from tests.unit.records import connection

LARGE = bytes(range(256)) * 4096


@pytest.fixture
async def pod_port() -> AsyncIterator[int]:
    """A server that gives back what it is sent."""

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    application = web.Application(client_max_size=2 * len(LARGE))
    application.router.add_post("/", echo)
    async with TestServer(application) as server:
        assert server.port is not None
        yield server.port


async def test_bytes_come_through_both_ways(pod_port: int) -> None:
    async with KubernetesServer.running() as server, aiohttp.ClientSession() as http:
        server.around = forwarding({"pod": pod_port})
        async with forwarded(connection(server), namespace="n", pod="pod", port=9091) as forward:
            for content in (b"hello", LARGE):
                async with http.post(forward.url, data=content) as answer:
                    assert await answer.read() == content
            assert forward.failure == ""


async def test_a_refusal_is_told_at_once_in_the_servers_words() -> None:
    async with KubernetesServer.running() as server:
        server.around = forwarding({})
        with pytest.raises(ApiError, match="not yours") as refused:
            async with forwarded(connection(server), namespace="n", pod="pod", port=9091):
                pass
        assert refused.value.status == 403


async def test_a_port_that_nobody_serves() -> None:
    async with KubernetesServer.running() as server, aiohttp.ClientSession() as http:
        server.around = forwarding({"pod": 0})
        async with forwarded(connection(server), namespace="n", pod="pod", port=9091) as forward:
            with pytest.raises(aiohttp.ClientError):
                await http.post(forward.url)
            assert forward.failure == "connection refused"
