"""Deletes what outlived its Episode.

Owner references and the Episodes' own tasks leave nothing behind; this proves it, and repairs it
where the garbage collector does not run or an operator of an earlier release left something.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from episode_operator.api.episode import Episode
from episode_operator.api.labels import EPISODE_UID
from episode_operator.controller import metrics
from episode_operator.kube.client import (
    EPISODES,
    PODS,
    KubernetesClient,
    Object,
    Resource,
)

logger = logging.getLogger(__name__)

GRACE_SECONDS = 60.0
"""The garbage collector, and a task that has just finished, may still be at work."""


def leaked(
    objects: Sequence[Object], needed: Collection[str], *, created_before: float
) -> list[Object]:
    """Those of the objects that are of none of the Episodes (uids) that need them.

    What is younger (time in seconds since the epoch) or being deleted already is left alone.
    """
    return [
        item
        for item in objects
        if item["metadata"]["labels"][EPISODE_UID] not in needed
        and "deletionTimestamp" not in item["metadata"]
        and _seconds(item["metadata"]["creationTimestamp"]) <= created_before
    ]


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


class Sweeper:
    """Sweeps the watched namespaces, all when none is named, again and again.

    Pods are needed by the Episodes that are `live` or not finished, policies by all that exist.
    """

    def __init__(
        self,
        client: KubernetesClient,
        namespaces: Sequence[str],
        *,
        policies: Sequence[Resource],
        live: Callable[[], Collection[str]],
        interval_seconds: float,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self._client = client
        self._namespaces: Sequence[str | None] = namespaces or (None,)
        self._policies = policies
        self._live = live
        self._interval = interval_seconds
        self._grace = grace_seconds

    async def run(self) -> None:
        """Sweep for ever; an error is logged and counted, and the next sweep tries again."""
        while True:
            await asyncio.sleep(self._interval)
            for namespace in self._namespaces:
                try:
                    await self.sweep(namespace)
                except Exception:
                    metrics.INTERNAL_ERRORS.inc()
                    logger.exception("sweeping %s failed", namespace or "all namespaces")

    async def sweep(self, namespace: str | None) -> None:
        """Delete what is leaked in a namespace, None meaning all.

        Raises:
            ApiError: the API server refused a request.
        """
        pods = await self._labelled(PODS, namespace)
        policies = [(kind, await self._labelled(kind, namespace)) for kind in self._policies]
        # Listed after the objects, so that an Episode is here for each that has just been made.
        episodes = await self._client.list(EPISODES, namespace, metadata_only=True)
        existing = {episode["metadata"]["uid"]: episode for episode in episodes}
        live, end = existing.keys() & set(self._live()), time.time() - self._grace
        left = leaked(pods, live, created_before=end)
        await self._delete(PODS, [pod for pod in left if not await self._needs(existing, pod)])
        for kind, found in policies:
            await self._delete(kind, leaked(found, existing, created_before=end))

    async def _needs(self, existing: dict[str, Object], pod: Object) -> bool:
        """Whether the pod's Episode, which no task here drives, is not finished all the same."""
        found = existing.get(pod["metadata"]["labels"][EPISODE_UID])
        if found is None:
            return False
        metadata = found["metadata"]
        stored = await self._client.get(EPISODES, metadata["namespace"], metadata["name"])
        return stored is not None and not Episode.model_validate(stored).status.finished

    async def _labelled(self, kind: Resource, namespace: str | None) -> list[Object]:
        return await self._client.list(
            kind, namespace, labels={EPISODE_UID: None}, metadata_only=True
        )

    async def _delete(self, kind: Resource, items: Sequence[Object]) -> None:
        for item in items:
            metadata = item["metadata"]
            namespace, name = metadata["namespace"], metadata["name"]
            logger.warning("%s %s/%s is leaked; deleting it", kind.plural, namespace, name)
            await self._client.delete(kind, namespace, name, uid=metadata["uid"])
            metrics.LEAKED.labels(kind.plural).inc()
