"""Deletes what no Episode needs any more.

A finished Episode may stay for weeks; its policies, which every node of the cluster has to enforce,
go soon after its pods. Owner references and the Episodes' own tasks leave nothing else behind; this
proves it, and repairs it where the garbage collector does not run or an operator of an earlier
release left something.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from pydantic import ValidationError

from episode_operator.api.episode import Episode
from episode_operator.api.labels import EPISODE_UID
from episode_operator.api.reasons import ConditionType
from episode_operator.controller import metrics
from episode_operator.kube.client import (
    EPISODES,
    PODS,
    ApiError,
    KubernetesClient,
    Object,
    Resource,
)
from episode_operator.kube.namespaces import Namespaces

logger = logging.getLogger(__name__)

GRACE_SECONDS = 60.0
"""The garbage collector, a task that has just finished, or a node that kills a pod's processes
after the pod is gone from the API server, may still be at work."""


def idle(
    objects: Sequence[Object], live: Collection[str], *, created_before: float
) -> list[Object]:
    """Those of the objects whose Episode (by uid) is not live.

    What is younger (time in seconds since the epoch) or being deleted already is left alone.
    """
    return [
        item
        for item in objects
        if item["metadata"]["labels"][EPISODE_UID] not in live
        and "deletionTimestamp" not in item["metadata"]
        and datetime.fromisoformat(item["metadata"]["creationTimestamp"]).timestamp()
        <= created_before
    ]


class Sweeper:
    """Sweeps the operator's namespaces, again and again.

    Pods and policies are needed by Episodes that are `live` here, or not finished: another replica
    may drive them.
    """

    def __init__(
        self,
        client: KubernetesClient,
        namespaces: Namespaces,
        *,
        policies: Sequence[Resource],
        live: Callable[[], Collection[str]],
        interval_seconds: float,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self._client = client
        self._namespaces = namespaces
        self._policies = policies
        self._live = live
        self._interval = interval_seconds
        self._grace = grace_seconds

    async def run(self) -> None:
        """Sweep for ever; an error is logged and counted, and the next sweep tries again."""
        while True:
            await asyncio.sleep(self._interval)
            for namespace in self._namespaces.watched or (None,):
                try:
                    await self.sweep(namespace)
                except Exception:
                    metrics.INTERNAL_ERRORS.inc()
                    logger.exception("sweeping %s failed", namespace or "all namespaces")

    async def sweep(self, namespace: str | None) -> None:
        """Delete what is not needed in a namespace, None meaning all of the operator's.

        What cannot be looked at or deleted is logged, and the others go on.

        Raises:
            ApiError: the API server does not list something.
        """
        with_pods: set[str] = set()
        for kind in (PODS, *self._policies):
            listed = await self._client.list(
                kind, namespace, labels={EPISODE_UID: None}, metadata_only=True
            )
            found = [
                item for item in listed if self._namespaces.include(item["metadata"]["namespace"])
            ]
            if kind is PODS:
                with_pods = {pod["metadata"]["labels"][EPISODE_UID] for pod in found}
            else:  # a pod is cut off as long as it is there
                found = [
                    policy
                    for policy in found
                    if policy["metadata"]["labels"][EPISODE_UID] not in with_pods
                ]
            before = time.time() - self._grace
            for item in idle(found, set(self._live()), created_before=before):
                try:
                    await self._look_at(kind, item, before)
                except (ApiError, ValidationError):
                    metrics.INTERNAL_ERRORS.inc()
                    name = item["metadata"]["name"]
                    logger.exception("sweeping %s %s failed", kind.plural, name)

    async def _look_at(self, kind: Resource, item: Object, before: float) -> None:
        """Delete the object if its Episode is gone, or finished before that time."""
        episode = await self._episode(item)
        if episode is not None and not _finished_before(episode, before):
            return
        metadata = item["metadata"]
        if episode is None or kind is PODS:
            logger.warning(
                "%s %s/%s is leaked; deleting it",
                kind.plural,
                metadata["namespace"],
                metadata["name"],
            )
            metrics.LEAKED.labels(kind.plural).inc()
        await self._client.delete(
            kind, metadata["namespace"], metadata["name"], uid=metadata["uid"]
        )

    async def _episode(self, item: Object) -> Episode | None:
        """The Episode that owns the object, if it still exists."""
        metadata = item["metadata"]
        uid = metadata["labels"][EPISODE_UID]
        owners = [owner for owner in metadata.get("ownerReferences", []) if owner["uid"] == uid]
        if not owners:
            return None
        stored = await self._client.get(EPISODES, metadata["namespace"], owners[0]["name"])
        if stored is None or stored["metadata"]["uid"] != uid:
            return None
        return Episode.model_validate(stored)


def _finished_before(episode: Episode, before: float) -> bool:
    return any(
        condition.type == ConditionType.FINISHED
        and condition.status == "True"
        and condition.last_transition_time.timestamp() <= before
        for condition in episode.status.conditions
    )
