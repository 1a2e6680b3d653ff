"""Sees each change of a namespace's pods when the API server tells it."""

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from episode_operator.kube.client import PODS
from episode_operator.kube.connection import KubernetesConnection
from tests.testbed.errors import TestbedError

WAIT_SECONDS = 120.0
_LINE_BYTES = 4 << 20

Pod = dict[str, Any]
Holds = Callable[[Pod | None], bool]


class PodWatch:
    """One watch for all pods; `until` may be awaited by many at once."""

    def __init__(self, connection: KubernetesConnection, namespace: str) -> None:
        self._connection = connection
        self._namespace = namespace
        self._pods: dict[str, Pod | None] = {}
        self._waiting: dict[asyncio.Future[float], tuple[str, Holds]] = {}
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def until(self, name: str, holds: Holds) -> float:
        """When (`time.perf_counter`) a pod was first seen like this; None stands for a gone one.

        Raises:
            TestbedError: it was not within two minutes, or the watch ended.
        """
        assert self._task is not None
        if name in self._pods and holds(self._pods[name]):
            return time.perf_counter()
        seen: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting[seen] = (name, holds)
        try:
            awaited: set[asyncio.Future[Any]] = {seen, self._task}
            await asyncio.wait(awaited, timeout=WAIT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if seen.done():
                return seen.result()
            if self._task.done():
                raise TestbedError("the watch of pods ended") from self._task.exception()
            status = (self._pods.get(name) or {}).get("status")
            raise TestbedError(f"pod {name} is not as awaited after {WAIT_SECONDS:.0f} s: {status}")
        finally:
            del self._waiting[seen]

    async def _read(self) -> None:
        connection = self._connection
        async with (
            aiohttp.ClientSession(read_bufsize=_LINE_BYTES) as http,
            http.get(
                connection.base_url + PODS.path(self._namespace),
                params={"watch": "true"},
                headers=await connection.headers(),
                ssl=connection.ssl or True,
                server_hostname=connection.server_hostname,
                proxy=connection.proxy,
                timeout=aiohttp.ClientTimeout(total=None),
            ) as answer,
        ):
            answer.raise_for_status()
            async for line in answer.content:
                self._take(orjson.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        now, pod = time.perf_counter(), event["object"]
        name = pod["metadata"]["name"]
        self._pods[name] = None if event["type"] == "DELETED" else pod
        for seen, (awaited, holds) in self._waiting.items():
            if awaited == name and not seen.done() and holds(self._pods[name]):
                seen.set_result(now)
