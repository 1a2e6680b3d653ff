"""Hears at once of sandboxes that start.

The kubelet writes an event when it has started a container, and says so in the pod's status when it
next looks at its containers, up to a second later.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from episode_operator.kube.client import EVENTS, ApiError, KubernetesClient, Object
from episode_operator.lifecycle.pods import MAIN_CONTAINER

logger = logging.getLogger(__name__)

_STARTED = f"reason=Started,involvedObject.fieldPath=spec.containers{{{MAIN_CONTAINER}}}"
_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Started:
    """The task's container of a pod has started."""

    namespace: str
    pod: str
    pod_uid: str


class StartWatch:
    """Tells of each start. One that it misses is found in the pod's status."""

    def __init__(
        self,
        client: KubernetesClient,
        namespaces: Sequence[str],
        heard: Callable[[Started], None],
    ) -> None:
        """`namespaces`: where to listen; none means everywhere."""
        self._client = client
        self._namespaces = namespaces or (None,)
        self._heard = heard

    async def run(self) -> None:
        """Listen for ever."""
        async with asyncio.TaskGroup() as group:
            for namespace in self._namespaces:
                group.create_task(self._follow(namespace))

    async def _follow(self, namespace: str | None) -> None:
        while True:
            try:
                async for event in self._client.watch(EVENTS, namespace, fields=_STARTED):
                    self._heard(_started(event))
            except ApiError as error:
                logger.warning("starts in %s: %s", namespace or "all namespaces", error)
            await asyncio.sleep(_PAUSE_SECONDS)


def _started(event: Object) -> Started:
    pod = event["involvedObject"]
    return Started(pod.get("namespace", ""), pod.get("name", ""), pod.get("uid", ""))
