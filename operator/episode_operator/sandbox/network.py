"""What the cluster's network is like, and whether the sandbox is really cut off.

A NetworkPolicy is enforced by the cluster's network, some time after the pod has started: with
kube-router a new pod reached the API server for up to a second, and a network without support for
policies never enforces one. So nothing of the agent's runs before a connection has failed.
"""

import asyncio
import time
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

from episode_operator.api.network import EgressRule, Network, Protocol
from episode_operator.kube.client import (
    CILIUM_NETWORK_POLICIES,
    ENDPOINT_SLICES,
    KubernetesClient,
    NotFoundError,
)
from episode_operator.sandbox.errors import SandboxError
from episode_operator.sandbox.session import RUNNER_PATH, Session

_LIMIT_SECONDS = 30.0
_OPEN_PAUSE_SECONDS = 0.1
_CLOSED_PAUSE_SECONDS = 0.02
_NOT_REACHED = 2
_CLOSED_IN_A_ROW = 3
"""A single connection may fail for other reasons, on an overloaded node for example. Those that are
dropped and not refused wait half a second each."""

UNCHECKED = (
    "sandbox.network.allow opens the API server itself, so it was not checked that the "
    "NetworkPolicy is enforced"
)


class NetworkNotEnforced(SandboxError):
    """The pod's NetworkPolicy has no effect."""

    reason = "NetworkNotEnforced"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address and a port that listens there; as text `host:port`."""

    address: IPv4Address | IPv6Address
    port: int

    def __str__(self) -> str:
        host = f"[{self.address}]" if self.address.version == 6 else str(self.address)
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the policies and their check need to know of the cluster.

    Attributes:
        api_server: where a pod without a policy reaches it: its Service, and what is behind that.
        cilium: whether CiliumNetworkPolicies can be made.
    """

    api_server: tuple[Endpoint, ...]
    cilium: bool = False


async def discover(client: KubernetesClient) -> Cluster:
    """Ask the API server.

    Raises:
        ApiError: it refuses to answer.
    """
    behind = await client.request("GET", ENDPOINT_SLICES.path("default", "kubernetes"))
    return Cluster(
        api_server=(*_from_url(client.connection.base_url), *_from_slice(behind)),
        cilium=await _has_cilium(client),
    )


def _from_url(url: str) -> list[Endpoint]:
    parts = urlsplit(url)
    try:
        return [Endpoint(ip_address(parts.hostname or ""), parts.port or 443)]
    except ValueError:
        return []  # a host name, which a sandbox without DNS could not find


def _from_slice(stored: dict[str, Any]) -> list[Endpoint]:
    return [
        Endpoint(ip_address(address), port["port"])
        for endpoint in stored["endpoints"]
        for address in endpoint["addresses"]
        for port in stored["ports"]
    ]


async def _has_cilium(client: KubernetesClient) -> bool:
    try:
        group = await client.request("GET", CILIUM_NETWORK_POLICIES.prefix)
    except NotFoundError:
        return False
    return any(found["name"] == CILIUM_NETWORK_POLICIES.plural for found in group["resources"])


def probe_address(network: Network, cluster: Cluster) -> str | None:
    """`host:port` that the sandbox must not reach and that every pod without a policy does.

    None if an allowlist opens an address of the API server: then its other addresses, which lead
    to the same server, may be open too.
    """
    if any(_opens(rule, found) for rule in network.allow for found in cluster.api_server):
        return None
    return str(cluster.api_server[0])


def _opens(rule: EgressRule, endpoint: Endpoint) -> bool:
    return (
        rule.cidr is not None
        and rule.protocol is Protocol.TCP
        and endpoint.address in ip_network(rule.cidr, strict=False)
        and (not rule.ports or endpoint.port in rule.ports)
    )


async def wait_until_closed(session: Session, address: str) -> None:
    """Return once the pod cannot connect to an address that listens.

    Raises:
        NetworkNotEnforced: it still can after 30 seconds.
        SandboxError: the sandbox failed.
    """
    end = time.monotonic() + _LIMIT_SECONDS
    closed = 0
    while True:
        result = await session.exec([RUNNER_PATH, "reaches", address], timeout_seconds=10, cwd="/")
        closed = closed + 1 if result.exit_code == _NOT_REACHED else 0
        if closed == _CLOSED_IN_A_ROW:
            return
        if time.monotonic() >= end:
            raise NetworkNotEnforced(
                f"the sandbox still reaches {address} although its NetworkPolicy forbids it "
                f"(probe exit code {result.exit_code}); install a network that enforces "
                "NetworkPolicy, or set operator.requireNetworkPolicy=false in the chart's values",
                pod_uid=session.pod_uid,
            )
        await asyncio.sleep(_CLOSED_PAUSE_SECONDS if closed else _OPEN_PAUSE_SECONDS)
