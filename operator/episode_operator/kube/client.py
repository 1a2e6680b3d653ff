"""A small asynchronous client of the API server: raw JSON in, raw JSON out.

The official client's typed decoding costs about 17 times the time of plain JSON; credentials and
TLS still come from it (kube/connection.py).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Self

import aiohttp
import orjson
import stamina

from episode_operator.kube.connection import KubernetesConnection

Object = dict[str, Any]
OnWrite = Callable[[str, str, int], None]
"""Hears the method, the path and the HTTP status of a request: 200 where it succeeded, 0 where no
answer came.
"""

_AWAY = frozenset({0, 429, 500, 502, 503, 504})
_ATTEMPTS = 6
_REQUEST_SECONDS = 60
_WATCH_SECONDS = 300
_WATCH_LINE_BYTES = 4 << 20
_PAGE = 500
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class ApiError(Exception):
    """The API server refused a request; `status` is the HTTP status, 0 if there was no answer."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{reason or status}: {message}")
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def away(self) -> bool:
        """Whether the server could not answer now; the same request may succeed later."""
        return self.status in _AWAY


class NotFoundError(ApiError):
    """There is no such object."""


class AlreadyExistsError(ApiError):
    """An object of that name exists."""


class ConflictError(ApiError):
    """The object has changed since it was read."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object: its API prefix (`/api/v1`, `/apis/GROUP/VERSION`) and plural name."""

    prefix: str
    plural: str

    def path(
        self, namespace: str | None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """URL path of the collection, of all namespaces or one, of an object, or a subresource."""
        where = ["namespaces", namespace] if namespace is not None else []
        parts = [self.prefix, *where, self.plural, name, subresource]
        return "/".join(part for part in parts if part is not None)


EPISODES = Resource("/apis/episodes.dev/v1alpha1", "episodes")
EPISODE_RESULTS = Resource("/apis/episodes.dev/v1alpha1", "episoderesults")
PODS = Resource("/api/v1", "pods")
CONFIG_MAPS = Resource("/api/v1", "configmaps")
SECRETS = Resource("/api/v1", "secrets")
EVENTS = Resource("/api/v1", "events")
NETWORK_POLICIES = Resource("/apis/networking.k8s.io/v1", "networkpolicies")
CILIUM_NETWORK_POLICIES = Resource("/apis/cilium.io/v2", "ciliumnetworkpolicies")
LEASES = Resource("/apis/coordination.k8s.io/v1", "leases")
ENDPOINT_SLICES = Resource("/apis/discovery.k8s.io/v1", "endpointslices")


def api_error(status: int, body: bytes) -> ApiError:
    """The error that an answer of the API server with this status and body tells."""
    try:
        answer = orjson.loads(body)
        reason, message = answer.get("reason", ""), answer.get("message", "")
    except (orjson.JSONDecodeError, AttributeError):
        reason, message = "", body[:200].decode(errors="replace")
    if status == HTTPStatus.NOT_FOUND:
        return NotFoundError(status, reason, message)
    if status == HTTPStatus.CONFLICT and reason == "AlreadyExists":
        return AlreadyExistsError(status, reason, message)
    if status == HTTPStatus.CONFLICT and reason == "Conflict":
        return ConflictError(status, reason, message)
    return ApiError(status, reason, message)


def _selected(labels: Mapping[str, str | None]) -> dict[str, str]:
    if not labels:
        return {}
    terms = (key if value is None else f"{key}={value}" for key, value in labels.items())
    return {"labelSelector": ",".join(terms)}


def _retry(error: Exception) -> bool:
    if isinstance(error, ApiError):
        return error.away
    return isinstance(error, aiohttp.ClientError | asyncio.TimeoutError | OSError)


class KubernetesClient:
    """Requests to one API server over one connection pool; safe for concurrent use.

    Watches hold a connection each, outside of the pool. Every request is retried with back-off on
    connection loss, 429 and 5xx, so callers send only requests that are safe to repeat: creations
    of fixed names, applies and deletions.
    """

    def __init__(
        self, connection: KubernetesConnection, *, on_write: OnWrite = lambda *_: None
    ) -> None:
        """`on_write` hears of each request that writes, also of those that are sent again."""
        self.connection = connection
        self._on_write = on_write
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=connection.ssl or True, limit=64),
            timeout=aiohttp.ClientTimeout(total=_REQUEST_SECONDS),
        )
        self._watches = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=connection.ssl or True, limit=0),
            timeout=aiohttp.ClientTimeout(total=_WATCH_SECONDS + _REQUEST_SECONDS),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._watches.close()
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        body: Object | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Object:
        """Send one request, retried where that can help.

        Raises:
            NotFoundError, AlreadyExistsError, ApiError: the server refused it.
        """
        data = orjson.dumps(body) if body is not None else None
        headers = {"Content-Type": content_type, "Accept": accept}
        try:
            async for attempt in stamina.retry_context(
                on=_retry, attempts=_ATTEMPTS, wait_initial=0.1, wait_max=5.0, timeout=None
            ):
                with attempt, self._told(method, path):
                    return await self._send(method, path, params, data, headers)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise ApiError(0, "Unreachable", f"{method} {path}: {error!r}") from error
        raise AssertionError("unreachable")

    @contextmanager
    def _told(self, method: str, path: str) -> Iterator[None]:
        """Tell `on_write` what becomes of the request in the block, if it writes."""
        if method == "GET":
            yield
            return
        try:
            yield
        except ApiError as error:
            self._on_write(method, path, error.status)
            raise
        except (TimeoutError, aiohttp.ClientError, OSError):
            self._on_write(method, path, 0)
            raise
        self._on_write(method, path, HTTPStatus.OK)

    async def _send(
        self,
        method: str,
        path: str,
        params: dict[str, str] | None,
        data: bytes | None,
        headers: dict[str, str],
    ) -> Object:
        async with self._session.request(
            method,
            self.connection.base_url + path,
            params=params,
            data=data,
            headers={**await self.connection.headers(), **headers},
            server_hostname=self.connection.server_hostname,
            proxy=self.connection.proxy,
        ) as response:
            answer = await response.read()
            if response.status >= HTTPStatus.BAD_REQUEST:
                raise api_error(response.status, answer)
            parsed: Object = orjson.loads(answer)
            return parsed

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """The object, or None if there is none."""
        try:
            return await self.request("GET", resource.path(namespace, name))
        except NotFoundError:
            return None

    async def list(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        labels: Mapping[str, str | None] = MappingProxyType({}),
        metadata_only: bool = False,
    ) -> list[Object]:
        """All objects of a namespace, None meaning all, that carry the labels; None is any value.

        They are read in pages, so that a large cluster costs no huge answers, and with
        `metadata_only` without spec and status.
        """
        parameters = {"limit": str(_PAGE), **_selected(labels)}
        items: list[Object] = []
        while True:
            answer = await self.request(
                "GET",
                resource.path(namespace),
                params=parameters,
                accept=_METADATA_LIST if metadata_only else "application/json",
            )
            items += answer["items"] or []
            token = answer["metadata"].get("continue")
            if not token:
                return items
            parameters["continue"] = token

    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        fields: str | None = None,
        labels: Mapping[str, str | None] = MappingProxyType({}),
    ) -> AsyncIterator[Object]:
        """Objects as they are made and changed from now on, until the server ends the watch.

        It does so after some minutes, and what happens before the next watch is not told: for what
        is only a hint.

        Args:
            fields: a field selector.
            labels: as for `list`.

        Raises:
            ApiError: the server refused it, was lost, or sent no JSON.
        """
        path, selected = resource.path(namespace), _selected(labels)
        if fields is not None:
            selected["fieldSelector"] = fields
        now = await self.request("GET", path, params={"limit": "1", **selected})
        follow = {
            "watch": "true",
            "resourceVersion": now["metadata"]["resourceVersion"],
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        try:
            async with self._watches.get(
                self.connection.base_url + path,
                params={**follow, **selected},
                headers=await self.connection.headers(),
                server_hostname=self.connection.server_hostname,
                proxy=self.connection.proxy,
                read_bufsize=_WATCH_LINE_BYTES,
            ) as response:
                if response.status >= HTTPStatus.BAD_REQUEST:
                    raise api_error(response.status, await response.read())
                async for line in response.content:
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        return
                    if event["type"] != "DELETED":
                        yield event["object"]
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise ApiError(0, "Unreachable", f"watch {path}: {error!r}") from error

    async def create(self, resource: Resource, body: Object) -> Object:
        """Create the object.

        Raises:
            AlreadyExistsError: an object of that name exists.
        """
        path = resource.path(body["metadata"]["namespace"])
        return await self.request("POST", path, body=body)

    async def apply(self, resource: Resource, body: Object, *, manager: str) -> Object:
        """Server-side apply of an object, which is created if it is not there."""
        metadata = body["metadata"]
        return await self.request(
            "PATCH",
            resource.path(metadata["namespace"], metadata["name"]),
            params={"fieldManager": manager, "force": "true"},
            body=body,
            content_type="application/apply-patch+yaml",
        )

    async def replace(self, resource: Resource, body: Object) -> Object:
        """Replace an object that is still the one that was read (`metadata.resourceVersion`).

        Raises:
            ConflictError: it has changed since.
        """
        metadata = body["metadata"]
        path = resource.path(metadata["namespace"], metadata["name"])
        return await self.request("PUT", path, body=body)

    async def apply_status(self, resource: Resource, body: Object, *, manager: str) -> Object:
        """Server-side apply of the status subresource; `body` holds the whole status."""
        metadata = body["metadata"]
        return await self.request(
            "PATCH",
            resource.path(metadata["namespace"], metadata["name"], "status"),
            params={"fieldManager": manager, "force": "true"},
            body=body,
            content_type="application/apply-patch+yaml",
        )

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str | None = None
    ) -> None:
        """Delete the object with no grace; an object that is gone already is no error.

        With `uid` only that very object is deleted, never a later one of the same name.
        """
        options: Object = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self.request("DELETE", resource.path(namespace, name), body=options)
        except NotFoundError:
            return
        except ApiError as error:
            if uid is None or error.status != HTTPStatus.CONFLICT:
                raise
