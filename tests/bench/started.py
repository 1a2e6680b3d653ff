"""Sees sandboxes start as the operator does: by the kubelet's event, or by the pod's status."""

import asyncio
import time
from collections import defaultdict
from types import TracebackType
from typing import Any, Self

from episode_operator.controller.starts import Started, StartWatch
from episode_operator.kube.client import KubernetesClient
from episode_operator.lifecycle import pods
from tests.bench.pod_watch import PodWatch


class StartedPods:
    """For one namespace; `until` may be awaited by many at once."""

    def __init__(self, client: KubernetesClient, namespace: str, watch: PodWatch) -> None:
        self._starts = StartWatch(client, [namespace], self._heard)
        self._watch = watch
        self._told: defaultdict[str, asyncio.Future[float]] = defaultdict(asyncio.Future)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._starts.run())
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

    async def until(self, name: str) -> float:
        """When (`time.perf_counter`) it was first known that a pod's sandbox runs.

        Raises:
            TestbedError: it was not within two minutes, or the watch of pods ended.
        """
        status = asyncio.ensure_future(self._watch.until(name, is_running))
        ways: set[asyncio.Future[float]] = {self._told[name], status}
        try:
            known, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            return known.pop().result()
        finally:
            status.cancel()
            await asyncio.gather(status, return_exceptions=True)

    def _heard(self, start: Started) -> None:
        if not self._told[start.pod].done():
            self._told[start.pod].set_result(time.perf_counter())


def is_running(pod: dict[str, Any] | None) -> bool:
    """Whether its status says what the operator waits for."""
    return pod is not None and pods.view(pod).running
