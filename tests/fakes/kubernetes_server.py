"""An API server that keeps objects and does nothing with them, over HTTP on the loopback."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

Refusal = tuple[int, str]


class KubernetesServer:
    """Its objects by path; `refuse` answers a request with an error instead, `on_get` may act.

    A PATCH replaces the status. `services` answers requests to Services through their proxies, by
    path.
    """

    def __init__(self) -> None:
        self.url = ""
        self.objects: dict[str, dict[str, Any]] = {}
        self.refuse: Callable[[str, str], Refusal | None] = lambda method, path: None
        self.on_get: Callable[[str], None] = lambda path: None
        self.services: dict[str, Callable[[Any], Any]] = {}
        self._uids = (f"uid-{number}" for number in count())

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

    def _listed(self, path: str, selector: str) -> dict[str, Any]:
        """The objects of a collection with these labels."""
        wanted = [label.split("=") for label in selector.split(",")]
        items = [
            item
            for name, item in self.objects.items()
            if name.rpartition("/")[0] == path
            and all(item["metadata"].get("labels", {}).get(key) == value for key, value in wanted)
        ]
        return {"items": items, "metadata": {}}

    def _create(self, collection: str, body: dict[str, Any]) -> web.Response:
        path = f"{collection}/{body['metadata']['name']}"
        if path in self.objects:
            return _refused(409, "AlreadyExists", path)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        body["metadata"] |= {"uid": next(self._uids), "creationTimestamp": now}
        self.objects[path] = body
        return web.json_response(body)

    def _delete(self, path: str, options: dict[str, Any]) -> web.Response:
        if path not in self.objects:
            return _refused(404, "NotFound", path)
        uid = self.objects[path]["metadata"]["uid"]
        if options.get("preconditions", {}).get("uid", uid) != uid:
            return _refused(409, "Conflict", path)
        return web.json_response(self.objects.pop(path))

    async def _answer(self, request: web.Request) -> web.Response:
        path, method = request.path, request.method
        if path in self.services:
            return web.json_response(self.services[path](await request.json()))
        if (refusal := self.refuse(method, path)) is not None:
            return _refused(refusal[0], "Refused", refusal[1])
        if method == "POST":
            return self._create(path, await request.json())
        if method == "DELETE":
            return self._delete(path, await request.json())
        if method == "GET":
            self.on_get(path)
        if "labelSelector" in request.query:
            return web.json_response(self._listed(path, request.query["labelSelector"]))
        found = self.objects.get(path.removesuffix("/status"))
        if found is not None and method == "PATCH":
            found["status"] = (await request.json())["status"]
        return _refused(404, "NotFound", path) if found is None else web.json_response(found)


def _refused(status: int, reason: str, message: str) -> web.Response:
    return web.json_response({"reason": reason, "message": message}, status=status)
