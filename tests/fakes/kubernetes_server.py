"""An API server that keeps objects and does nothing with them, over HTTP on the loopback."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any

import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer

from episode_operator.api.crd import definitions

Refusal = tuple[int, str]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_NAMESPACE = re.compile("/namespaces/[^/]+/")


async def _plain(request: web.Request, handler: Handler) -> web.StreamResponse:
    return await handler(request)


@dataclass(frozen=True, slots=True)
class Event:
    """A change: the path of the object, and the object as it was then."""

    type: str
    path: str
    object: dict[str, Any]


class KubernetesServer:
    """Its objects by path; `refuse` answers a request with an error instead, `on_get` may act.

    A PATCH of a status replaces what its field manager has set before. `services` answers requests
    to Services through their proxies, by path. `around` is a middleware: it may act before and
    after a request, or in place of it. `events` are all changes in their order, for watches.
    """

    def __init__(self) -> None:
        self.url = ""
        self.objects: dict[str, dict[str, Any]] = {}
        self.events: list[Event] = []
        self.refuse: Callable[[str, str], Refusal | None] = lambda method, path: None
        self.on_get: Callable[[str], None] = lambda path: None
        self.services: dict[str, Callable[[Any], Any]] = {}
        self.around: Callable[[web.Request, Handler], Awaitable[web.StreamResponse]] = _plain
        self._uids = (f"uid-{number}" for number in count())
        self._applied: dict[tuple[str, str], set[str]] = {}
        self._changed = asyncio.Event()
        self._stopped = False

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator["KubernetesServer"]:
        """A server that runs."""
        server = cls()
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", server._surrounded)
        app.on_shutdown.append(server._stop)
        async with TestServer(app) as running:
            server.url = str(running.make_url("")).rstrip("/")
            yield server

    async def _stop(self, app: web.Application) -> None:
        self._stopped = True
        self._changed.set()

    def kinds(self) -> list[str]:
        """The plural names of all objects that are there."""
        return sorted(path.split("/")[-2] for path in self.objects)

    def _note(self, type_: str, path: str) -> dict[str, Any]:
        """A change of an object that is there: a version of its own, told to watches."""
        found = self.objects[path]
        found["metadata"]["resourceVersion"] = str(len(self.events) + 1)
        self.events.append(Event(type_, path, orjson.loads(orjson.dumps(found))))
        self._changed.set()
        self._changed = asyncio.Event()
        return found

    def _listed(self, request: web.Request) -> dict[str, Any]:
        """The objects of a collection with these labels."""
        items = [item for path, item in self.objects.items() if _selected(request, path, item)]
        metadata = {"resourceVersion": str(len(self.events))}
        if "as=Table" in request.headers["Accept"]:
            return {**_table(request.path.rpartition("/")[2], items), "metadata": metadata}
        if "PartialObjectMetadataList" in request.headers["Accept"]:
            items = [{"metadata": item["metadata"]} for item in items]
        return {"items": items, "metadata": metadata}

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        """What changes from a version on, until the client or this server ends."""
        seen = int(request.query["resourceVersion"])
        response = web.StreamResponse()
        with suppress(ConnectionError):
            await response.prepare(request)
            while not self._stopped:
                changed, fresh = self._changed, self.events[seen:]
                seen += len(fresh)
                for event in fresh:
                    if _selected(request, event.path, event.object):
                        line = orjson.dumps({"type": event.type, "object": event.object})
                        await response.write(line + b"\n")
                await changed.wait()
        return response

    def _create(self, collection: str, body: dict[str, Any]) -> web.Response:
        path = f"{collection}/{body['metadata']['name']}"
        if path in self.objects:
            return _refused(409, "AlreadyExists", path)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        body["metadata"] |= {"uid": next(self._uids), "creationTimestamp": now}
        self.objects[path] = body
        return web.json_response(self._note("ADDED", path))

    def _apply(self, path: str, body: dict[str, Any], manager: str) -> web.Response:
        if path.endswith("/status"):
            return self._apply_status(path.removesuffix("/status"), body["status"], manager)
        if path not in self.objects:
            return self._create(path.rpartition("/")[0], body)
        found = self.objects[path]
        found |= {key: value for key, value in body.items() if key != "metadata"}
        if (owners := body["metadata"].get("ownerReferences")) is not None:
            known = found["metadata"].setdefault("ownerReferences", [])
            uids = {owner["uid"] for owner in known}
            known.extend(owner for owner in owners if owner["uid"] not in uids)
        return web.json_response(self._note("MODIFIED", path))

    def _apply_status(self, path: str, status: dict[str, Any], manager: str) -> web.Response:
        found = self.objects.get(path)
        if found is None:
            return _refused(404, "NotFound", path)
        key = (found["metadata"]["uid"], manager)
        others = {
            name: value
            for name, value in found.get("status", {}).items()
            if name not in self._applied.get(key, set())
        }
        self._applied[key] = set(status)
        found["status"] = others | status
        return web.json_response(self._note("MODIFIED", path))

    def _replace(self, path: str, body: dict[str, Any]) -> web.Response:
        found = self.objects.get(path)
        if found is None:
            return _refused(404, "NotFound", path)
        if body["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            return _refused(409, "Conflict", path)
        self.objects[path] = body | {"metadata": found["metadata"] | body["metadata"]}
        return web.json_response(self._note("MODIFIED", path))

    def _delete(self, path: str, options: dict[str, Any]) -> web.Response:
        if path not in self.objects:
            return _refused(404, "NotFound", path)
        uid = self.objects[path]["metadata"]["uid"]
        if options.get("preconditions", {}).get("uid", uid) != uid:
            return _refused(409, "Conflict", path)
        self._note("DELETED", path)
        return web.json_response(self.objects.pop(path))

    async def _surrounded(self, request: web.Request) -> web.StreamResponse:
        return await self.around(request, self._answer)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path, method = request.path, request.method
        if path in self.services:
            return web.json_response(self.services[path](await request.json()))
        if (refusal := self.refuse(method, path)) is not None:
            return _refused(refusal[0], "Refused", refusal[1])
        if method == "GET":
            return await self._read(request)
        return self._write(request, await request.json())

    def _write(self, request: web.Request, body: dict[str, Any]) -> web.Response:
        path, method = request.path, request.method
        if method == "POST":
            return self._create(path, body)
        if method == "DELETE":
            return self._delete(path, body)
        if method == "PUT":
            return self._replace(path, body)
        return self._apply(path, body, request.query.get("fieldManager", ""))

    async def _read(self, request: web.Request) -> web.StreamResponse:
        self.on_get(request.path)
        if "watch" in request.query:
            return await self._watch(request)
        if "limit" in request.query:
            return web.json_response(self._listed(request))
        found = self.objects.get(request.path)
        return (
            _refused(404, "NotFound", request.path) if found is None else web.json_response(found)
        )


def _table(plural: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    """The objects of a custom resource as a table, with the columns of its definition."""
    [definition] = [
        found["spec"]
        for found in definitions().values()
        if found["spec"]["names"]["plural"] == plural
    ]
    columns = definition["versions"][0]["additionalPrinterColumns"]
    rows = [
        {
            "cells": [item["metadata"]["name"], *(_cell(item, column) for column in columns)],
            "object": {"metadata": item["metadata"]},
        }
        for item in items
    ]
    return {"columnDefinitions": [{"name": "Name"}, *columns], "rows": rows}


def _cell(item: dict[str, Any], column: dict[str, Any]) -> Any:
    value: Any = item
    for key in column["jsonPath"].split(".")[1:]:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _selected(request: web.Request, path: str, item: dict[str, Any]) -> bool:
    """Whether a request for a collection asks for this object of it."""
    collection = path.rpartition("/")[0]
    everywhere = _NAMESPACE.sub("/", collection)
    terms = filter(None, request.query.get("labelSelector", "").split(","))
    labels = item["metadata"].get("labels", {})
    return request.path in (collection, everywhere) and all(
        labels.get(key) == value if separator else key in labels
        for key, separator, value in (term.partition("=") for term in terms)
    )


def _refused(status: int, reason: str, message: str) -> web.Response:
    return web.json_response({"reason": reason, "message": message}, status=status)
