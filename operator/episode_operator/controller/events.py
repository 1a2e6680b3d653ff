"""Kubernetes events on the transitions of an Episode."""

import hashlib
from datetime import UTC, datetime
from typing import Literal

from episode_operator.api.base import API_VERSION
from episode_operator.api.episode import Episode
from episode_operator.kube.client import EVENTS, AlreadyExistsError, KubernetesClient

_MESSAGE_MAX = 1000
_COMPONENT = "episode-operator"


async def emit(
    client: KubernetesClient,
    episode: Episode,
    *,
    reason: str,
    message: str,
    kind: Literal["Normal", "Warning"] = "Normal",
) -> None:
    """Write one event. Its name holds the transition, so that repeating it is no second event."""
    digest = hashlib.sha256(f"{episode.uid}{episode.status.attempt}{reason}{message}".encode())
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{episode.name[:200]}.{digest.hexdigest()[:16]}",
            "namespace": episode.namespace,
        },
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": "Episode",
            "name": episode.name,
            "namespace": episode.namespace,
            "uid": episode.uid,
        },
        "type": kind,
        "reason": reason,
        "message": message[:_MESSAGE_MAX],
        "source": {"component": _COMPONENT},
        "reportingComponent": _COMPONENT,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        await client.create(EVENTS, body)
    except AlreadyExistsError:
        return
