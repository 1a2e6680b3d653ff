"""A namespace of the measurement's own, with nothing left of it afterwards."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from episode_operator.kube.client import PODS, KubernetesClient, NotFoundError, Resource
from tests.testbed.errors import TestbedError

NAMESPACES = "/api/v1/namespaces"
SERVICE_ACCOUNTS = Resource("/api/v1", "serviceaccounts")
READY_SECONDS = 120
GONE_SECONDS = 60


@asynccontextmanager
async def own_namespace(client: KubernetesClient) -> AsyncIterator[str]:
    """The name of a new namespace; it is gone when the block has ended, however it ended."""
    namespace = f"bench-{secrets.token_hex(4)}"
    try:
        await client.request("POST", NAMESPACES, body={"metadata": {"name": namespace}})
        await _has_account(client, namespace)
        yield namespace
    finally:
        await asyncio.shield(_remove(client, namespace))


async def until(holds: Callable[[], Awaitable[bool]], seconds: float) -> None:
    """Ask ten times a second. Raises TimeoutError if it does not hold in time."""
    async with asyncio.timeout(seconds):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.1)


async def _has_account(client: KubernetesClient, namespace: str) -> None:
    """Wait for the default service account: pods are refused without it."""

    async def exists() -> bool:
        return await client.get(SERVICE_ACCOUNTS, namespace, "default") is not None

    await until(exists, READY_SECONDS)


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
        await until(gone, GONE_SECONDS)
    except NotFoundError:
        return
    except TimeoutError:
        raise TestbedError(f"namespace {namespace} is not gone after {GONE_SECONDS} s") from None
