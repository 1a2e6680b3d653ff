"""A proxy before the API server: it can stop at each write, and cut or redirect exec connections.

It stands for a network and a moment that cannot be forced otherwise: an operator that is killed
just before a write arrives, or just after it was carried out and before its answer is seen; a pod
that is out of reach, or in which another runner answers.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal

import aiohttp
from aiohttp import web

from episode_operator.kube.connection import KubernetesConnection

Moment = Literal["before", "after"]
Hook = Callable[[str, Moment], Awaitable[None]]
Route = Callable[[str], str]

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_HOP = frozenset({"host", "connection", "transfer-encoding", "content-length", "accept-encoding"})


async def _nothing(_write: str, _moment: Moment) -> None:
    return


@dataclass
class ApiProxy:
    """Forwards to the API server with the administrator's credentials.

    Attributes:
        on_write: called with `METHOD path` before a write is forwarded, and after the server has
            answered while the client has not heard of it.
        cut_after: bytes after which the next exec connection is cut, counted in both directions;
            None cuts none. It is used up by one connection.
        routes: by pod, where an exec connection leads instead of the path and query asked for; an
            empty text refuses it, as an API server does that cannot reach the node.
        writes: the writes so far, in order.
    """

    connection: KubernetesConnection
    on_write: Hook = _nothing
    cut_after: int | None = None
    routes: dict[str, Route] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    cuts: int = 0
    _http: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def serving(self, host: str = "127.0.0.1") -> AsyncIterator[str]:
        """The proxy's base URL, while it runs, at an address of this machine."""
        application = web.Application(client_max_size=16 << 20)
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(application, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, host, 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        async with aiohttp.ClientSession(auto_decompress=False) as http:
            self._http = http
            try:
                yield f"http://{host}:{port}"
            finally:
                await runner.cleanup()

    def _target(self, request: web.Request) -> str:
        return self.connection.base_url + request.raw_path

    def _exec_target(self, request: web.Request) -> str | None:
        """Where an exec connection (.../pods/POD/exec) leads; None if it is refused."""
        route = self.routes.get(request.path.split("/")[-2], str)
        path = route(request.raw_path)
        return self.connection.base_url + path if path else None

    async def _headers(self, request: web.Request) -> dict[str, str]:
        kept = {k: v for k, v in request.headers.items() if k.lower() not in _HOP}
        return {**kept, "Accept-Encoding": "identity", **await self.connection.headers()}

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._websocket(request)
        write = f"{request.method} {request.path}"
        if request.method in _WRITES:
            self.writes.append(write)
            await self.on_write(write, "before")
        assert self._http is not None
        async with self._http.request(
            request.method,
            self._target(request),
            headers=await self._headers(request),
            data=await request.read() or None,
            ssl=self.connection.ssl or True,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            if request.method in _WRITES:
                body = await answer.read()
                await self.on_write(write, "after")
                return web.Response(
                    status=answer.status, body=body, content_type=answer.content_type
                )
            response = web.StreamResponse(status=answer.status)
            response.content_type = answer.content_type
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response

    async def _websocket(self, request: web.Request) -> web.StreamResponse:
        asked = request.headers.get("Sec-WebSocket-Protocol", "").split(",")
        protocols = [protocol.strip() for protocol in asked if protocol.strip()]
        assert self._http is not None
        target = self._exec_target(request)
        if target is None:
            return web.Response(status=HTTPStatus.BAD_GATEWAY)
        try:
            server = await self._http.ws_connect(
                target,
                protocols=protocols,
                headers=await self.connection.headers(),
                ssl=self.connection.ssl or True,
                max_msg_size=0,
            )
        except aiohttp.WSServerHandshakeError as error:
            return web.Response(status=error.status)
        client = web.WebSocketResponse(protocols=[server.protocol or ""], max_msg_size=0)
        await client.prepare(request)
        left, self.cut_after = self.cut_after, None
        budget = _Budget(left)
        pumps = [
            asyncio.create_task(_pump(server, client, budget)),
            asyncio.create_task(_pump(client, server, budget)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            self.cuts += budget.spent
            if request.transport is not None and budget.spent:
                request.transport.abort()
            with contextlib.suppress(Exception):
                await server.close()
        return client


class _Budget:
    """How many bytes may still pass."""

    def __init__(self, left: int | None) -> None:
        self._left = left
        self.spent = False

    def take(self, size: int) -> bool:
        if self._left is None:
            return True
        self._left -= size
        self.spent = self._left < 0
        return not self.spent


async def _pump(
    source: aiohttp.ClientWebSocketResponse | web.WebSocketResponse,
    sink: aiohttp.ClientWebSocketResponse | web.WebSocketResponse,
    budget: _Budget,
) -> None:
    async for message in source:
        data = message.data if isinstance(message.data, bytes) else b""
        if not budget.take(len(data)):
            return
        await sink.send_bytes(data)
