"""Is the sandbox really cut off?

A NetworkPolicy is enforced by the cluster's network, some time after the pod has started: with
kube-router a new pod reached the API server for up to a second, and a network without support for
policies never enforces one. So nothing of the agent's runs before a connection has failed.
"""

import asyncio
import time
from urllib.parse import urlsplit

from episode_operator.sandbox.errors import SandboxError
from episode_operator.sandbox.session import RUNNER_PATH, Session

_LIMIT_SECONDS = 30.0
_POLL_SECONDS = 0.1
_NOT_REACHED = 2
_CLOSED_IN_A_ROW = 3
"""A single connection may fail for other reasons, on an overloaded node for example."""


class NetworkNotEnforced(SandboxError):
    """The pod's NetworkPolicy has no effect."""

    reason = "NetworkNotEnforced"


def probe_address(api_server: str) -> str:
    """`host:port` that every pod without a policy reaches: the API server's, from its URL."""
    url = urlsplit(api_server)
    return f"{url.hostname}:{url.port or 443}"


async def wait_until_closed(session: Session, address: str) -> None:
    """Return once the pod cannot connect to an address that listens.

    Raises:
        NetworkNotEnforced: it still can after 30 seconds.
        SandboxError: the sandbox failed.
    """
    end = time.monotonic() + _LIMIT_SECONDS
    closed = 0
    while closed < _CLOSED_IN_A_ROW:
        result = await session.exec([RUNNER_PATH, "reaches", address], timeout_seconds=10)
        closed = closed + 1 if result.exit_code == _NOT_REACHED else 0
        if time.monotonic() >= end:
            raise NetworkNotEnforced(
                f"the sandbox still reaches {address} although its NetworkPolicy forbids it "
                f"(probe exit code {result.exit_code}); install a network that enforces "
                "NetworkPolicy, or set operator.requireNetworkPolicy=false in the chart's values",
                pod_uid=session.pod_uid,
            )
        await asyncio.sleep(_POLL_SECONDS)
