"""CPU and memory of the sandboxes' pods, from metrics.k8s.io."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from http import HTTPStatus
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from episode_operator.api.labels import EPISODE_UID
from episode_operator.kube.client import ApiError, KubernetesClient, Resource
from episodectl.errors import explained

POD_METRICS = Resource("/apis/metrics.k8s.io/v1beta1", "pods")

_NOT_SERVED = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE})


@dataclass(frozen=True, slots=True)
class Usage:
    """What the pods use together, now: cores, and bytes."""

    pods: int
    cpu: float
    memory: int


async def read(client: KubernetesClient, namespace: str | None) -> Usage | str:
    """The usage in a namespace, None meaning all; else why it is not known.

    Raises:
        ApiError: the API server does not answer.
    """
    try:
        found = await client.list(POD_METRICS, namespace, labels={EPISODE_UID: None})
    except ApiError as error:
        if error.status in _NOT_SERVED:
            return "the cluster has no metrics.k8s.io; install metrics-server to see it"
        if error.status == HTTPStatus.FORBIDDEN:
            return explained(error)
        raise
    return total(found)


def total(pods: Iterable[dict[str, Any]]) -> Usage:
    """The sum over pods, as PodMetrics has them."""
    usages = [[container["usage"] for container in pod["containers"]] for pod in pods]
    flat = [usage for pod in usages for usage in pod]
    cpu = sum((_quantity(usage["cpu"]) for usage in flat), Decimal(0))
    memory = sum((_quantity(usage["memory"]) for usage in flat), Decimal(0))
    return Usage(len(usages), float(cpu), int(memory))


def _quantity(text: str) -> Decimal:
    """Of any form, as metrics come in: the API's own quantities have no nano or micro."""
    found: Decimal = parse_quantity(text)  # type: ignore[no-untyped-call]
    return found
