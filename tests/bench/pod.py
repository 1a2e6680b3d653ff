"""The one pod that all paths are measured in: an Episode's pod, in a namespace of its own."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from episode_operator.api.episode import Episode, EpisodeSpec
from episode_operator.kube.client import PODS, KubernetesClient, NotFoundError, Resource
from episode_operator.lifecycle.pods import MAIN_CONTAINER
from episode_operator.sandbox.pod import SandboxSettings, build_pod
from tests.bench.target import Target
from tests.testbed.errors import TestbedError

NAMESPACES = "/api/v1/namespaces"
SERVICE_ACCOUNTS = Resource("/api/v1", "serviceaccounts")
READY_SECONDS = 120
GONE_SECONDS = 60


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
    namespace = f"bench-{secrets.token_hex(4)}"
    try:
        await client.request("POST", NAMESPACES, body={"metadata": {"name": namespace}})
        await _has_account(client, namespace)
        created = await client.create(PODS, _manifest(namespace, target, seccomp))
        name = created["metadata"]["name"]
        await _ready(client, namespace, name)
        yield Pod(namespace, name, MAIN_CONTAINER, created["metadata"]["uid"])
    finally:
        await asyncio.shield(_remove(client, namespace))


def _manifest(namespace: str, target: Target, seccomp: bool) -> dict[str, Any]:
    """An Episode's pod without the Episode, that no CPU limit and no idle neighbour slows down."""
    spec = EpisodeSpec.model_validate(
        {
            "task": {"image": target.task_image, "instruction": "none"},
            "verifier": {"testScript": {"script": "true"}},
            "sandbox": {"resources": {"cpu": "64", "cpuRequest": "1", "memory": "4Gi"}},
        }
    )
    metadata = {
        "name": "bench",
        "namespace": namespace,
        "uid": "0" * 8,
        "generation": 1,
        "creationTimestamp": datetime.now(UTC),
    }
    episode = Episode.model_validate({"metadata": metadata, "spec": spec})
    manifest = build_pod(episode, 0, SandboxSettings(target.runner_image))
    del manifest["metadata"]["ownerReferences"]  # else it would be collected as an orphan
    if not seccomp:
        for container in manifest["spec"]["containers"]:
            del container["securityContext"]["seccompProfile"]
    return manifest


async def _has_account(client: KubernetesClient, namespace: str) -> None:
    """Wait for the default service account: pods are refused without it."""

    async def exists() -> bool:
        return await client.get(SERVICE_ACCOUNTS, namespace, "default") is not None

    await _until(exists, READY_SECONDS)


async def _ready(client: KubernetesClient, namespace: str, name: str) -> None:
    status: dict[str, Any] = {}

    async def ready() -> bool:
        nonlocal status
        status = (await client.get(PODS, namespace, name) or {}).get("status", {})
        conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
        return conditions.get("Ready") == "True"

    try:
        await _until(ready, READY_SECONDS)
    except TimeoutError:
        raise TestbedError(f"the pod is not ready after {READY_SECONDS} s: {status}") from None


async def _remove(client: KubernetesClient, namespace: str) -> None:
    """Delete the namespace, pods first and with no grace, and wait until all of it is gone."""
    path = f"{NAMESPACES}/{namespace}"

    async def gone() -> bool:
        try:
            await client.request("GET", path)
        except NotFoundError:
            return True
        return False

    for pod in await client.list(PODS, namespace, labels={}):
        await client.delete(PODS, namespace, pod["metadata"]["name"])
    try:
        await client.request("DELETE", path)
        await _until(gone, GONE_SECONDS)
    except NotFoundError:
        return
    except TimeoutError:
        raise TestbedError(f"namespace {namespace} is not gone after {GONE_SECONDS} s") from None


async def _until(holds: Callable[[], Awaitable[bool]], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.1)
