"""An API server that keeps objects and does nothing with them, over HTTP on the loopback."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

Refusal = tuple[int, str]

_CREATED = "2026-11-29T10:00:00Z"


class KubernetesServer:
    """Its objects by path; `refuse` answers a request with an error instead, `on_get` may act."""

    def __init__(self) -> None:
        self.url = ""
        self.objects: dict[str, dict[str, Any]] = {}
        self.refuse: Callable[[str, str], Refusal | None] = lambda method, path: None
        self.on_get: Callable[[str], None] = lambda path: None

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator["KubernetesServer"]:
        """A server that runs."""
        server = cls()
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", server._answer)
        async with TestServer(app) as running:
            server.url = str(running.make_url("")).rstrip("/")
            yield server

    def kinds(self) -> list[str]:
        """The plural names of all objects that are there."""
        return sorted(path.split("/")[-2] for path in self.objects)

    async def _answer(self, request: web.Request) -> web.Response:
        path, method = request.path, request.method
        if (refusal := self.refuse(method, path)) is not None:
            status, message = refusal
            return web.json_response({"reason": "Refused", "message": message}, status=status)
        if method == "POST":
            body = await request.json()
            body["metadata"] |= {"uid": f"uid-{len(self.objects)}", "creationTimestamp": _CREATED}
            self.objects[f"{path}/{body['metadata']['name']}"] = body
            return web.json_response(body)
        if method == "GET":
            self.on_get(path)
        found = self.objects.pop(path, None) if method == "DELETE" else self.objects.get(path)
        if found is None:
            return web.json_response({"reason": "NotFound", "message": path}, status=404)
        return web.json_response(found)
