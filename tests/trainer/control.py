"""The control endpoints of a vLLM, which note what is asked of them, and when it is wrong."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Self

from aiohttp import web


@dataclass
class Held:
    """A call that has come or not, and is answered only when it is released."""

    call: str
    came: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)


class ControlledVllm:
    """A server in development mode. Its attributes may be changed while it runs."""

    def __init__(self) -> None:
        self.url = ""
        self.calls: list[str] = []
        """Paths with their queries, and what was asked: the weights' folder or the version."""
        self.failing: dict[str, int] = {}
        """Path -> status that it answers."""
        self.held: Held | None = None
        self.paused = False
        self.version = "default"
        self.weights: list[str] = []
        """Files of the weights that were loaded last."""

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator[Self]:
        """A server on a free port of this machine."""
        server = cls()
        app = web.Application()
        app.router.add_get("/health", server._health)
        app.router.add_post("/{path:.*}", server._handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = "http://{}:{}".format(*runner.addresses[0][:2])
        try:
            yield server
        finally:
            await runner.cleanup()

    def hold(self, call: str) -> "Held":
        """Let the next such call wait for its answer."""
        self.held = Held(call)
        return self.held

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _handle(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else {}
        told = body.get("new_version") or body.get("kwargs", {}).get("weights_path")
        call = request.path_qs if told is None else f"{request.path_qs} {told}"
        self.calls.append(call)
        if self.held is not None and self.held.call == call:
            held, self.held = self.held, None
            held.came.set()
            await held.released.wait()
        if request.path in self.failing:
            return web.json_response({"error": "injected"}, status=self.failing[request.path])
        if request.path == "/pause":
            self.paused = True
        elif request.path == "/resume":
            self.paused = False
        elif not self.paused:
            return web.json_response({"error": "not paused"}, status=500)
        elif request.path == "/collective_rpc":
            self.weights = await asyncio.to_thread(os.listdir, told)
        elif request.path == "/update_weight_version":
            self.version = body["new_version"]
        return web.json_response({"success": True})


def push_of(folder: str, version: str) -> list[str]:
    """The calls that give it new weights."""
    return [
        "/pause?mode=keep",
        f"/collective_rpc {folder}/{version}",
        "/reset_prefix_cache?reset_running_requests=true",
        f"/update_weight_version {version}",
        "/resume",
    ]
