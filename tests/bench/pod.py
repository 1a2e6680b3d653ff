"""An Episode's pod without the Episode, and the one that all paths of `exec` are measured in."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from episode_operator.api.episode import Episode, EpisodeSpec
from episode_operator.kube.client import PODS, KubernetesClient
from episode_operator.lifecycle.pods import MAIN_CONTAINER
from episode_operator.sandbox.pod import SandboxSettings, build_pod
from tests.bench.namespace import READY_SECONDS, own_namespace, until
from tests.bench.target import Target
from tests.testbed.errors import TestbedError


@dataclass(frozen=True)
class Pod:
    """Where the commands run."""

    namespace: str
    name: str
    container: str
    uid: str


@asynccontextmanager
async def running_pod(
    client: KubernetesClient, target: Target, *, seccomp: bool
) -> AsyncIterator[Pod]:
    """A ready pod; its namespace is gone when the block has ended, however it ended.

    Args:
        seccomp: with the filter that an Episode's pod has. It makes every exec into the pod, and
            so the peers, slower by tens of milliseconds; the pods of the peers have none.
    """
    async with own_namespace(client) as namespace:
        manifest = pod_manifest(_unhindered(namespace, target), target)
        del manifest["metadata"]["labels"]  # of no Episode, so the sweeper would take it away
        if not seccomp:
            for container in manifest["spec"]["containers"]:
                del container["securityContext"]["seccompProfile"]
        created = await client.create(PODS, manifest)
        name = created["metadata"]["name"]
        await _ready(client, namespace, name)
        yield Pod(namespace, name, MAIN_CONTAINER, created["metadata"]["uid"])


def episode(
    namespace: str, name: str, target: Target, resources: dict[str, str] | None = None
) -> Episode:
    """An Episode as the operator would read it; it is not in the cluster."""
    spec = EpisodeSpec.model_validate(
        {
            "task": {"image": target.task_image, "instruction": "none"},
            "verifier": {"testScript": {"script": "true"}},
            "sandbox": {"resources": resources or {}},
        }
    )
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": name,
        "generation": 1,
        "creationTimestamp": datetime.now(UTC),
    }
    return Episode.model_validate({"metadata": metadata, "spec": spec})


def pod_manifest(of: Episode, target: Target) -> dict[str, Any]:
    """Its pod, owned by nothing: else it would be collected as an orphan."""
    manifest = build_pod(of, 0, SandboxSettings(target.runner_image))
    del manifest["metadata"]["ownerReferences"]
    return manifest


def _unhindered(namespace: str, target: Target) -> Episode:
    """One that no CPU limit and no idle neighbour slows down."""
    resources = {"cpu": "64", "cpuRequest": "1", "memory": "4Gi"}
    return episode(namespace, "bench", target, resources)


async def _ready(client: KubernetesClient, namespace: str, name: str) -> None:
    status: dict[str, Any] = {}

    async def ready() -> bool:
        nonlocal status
        status = (await client.get(PODS, namespace, name) or {}).get("status", {})
        conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
        return conditions.get("Ready") == "True"

    try:
        await until(ready, READY_SECONDS)
    except TimeoutError:
        raise TestbedError(f"the pod is not ready after {READY_SECONDS} s: {status}") from None
