"""Out by the network: to the cluster, the node, other pods, the cloud's metadata, names.

Everything that is tried lies on this machine. The metadata address is given to its loopback
interface meanwhile, so that not even an attack that works leaves it.
"""

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from tests.cluster import kubectl
from tests.cluster.attacks.attack import IMAGE
from tests.cluster.episodes import terminal
from tests.testbed import stack

METADATA = "169.254.169.254"
_PAYLOADS = Path(__file__).parent / "payloads"
_REACH = (_PAYLOADS / "reach.py").read_text()
_PORT = 9753

Targets = dict[str, tuple[str, str, int]]
"""Name -> protocol, host, port, as payloads/reach.py takes them."""

Reached = dict[str, str]
"""Name -> `open`, or why it is not."""

LISTENING = (
    "API server",
    "API server's service",
    "kubelet",
    "host by TCP",
    "host by UDP",
    "metadata",
    "another pod by TCP",
    "another pod by UDP",
    "another pod by its service",
    "another pod by the node's port",
    "cluster DNS by TCP",
    "cluster DNS by UDP",
    "a name",
)
"""What a pod without a policy reaches: so there is something that a sandbox could reach."""

NAMES = (
    *LISTENING,
    "kubelet's read-only port",
    "etcd",
    "registry",
    "neighbours by IPv6",
    "model server",
    "model server's pod",
    "operator",
)

RESOLVING = {"cluster DNS by TCP", "cluster DNS by UDP", "a name"}
"""What mode Public opens of these."""

ALLOWED = {"another pod by TCP", "another pod by its service", "another pod by the node's port"}
"""What an allowlist with that pod's address and port opens."""


def calls(targets: Targets) -> list[dict[str, Any]]:
    """The agent's calls that try to reach the targets; the last one answers what it reached."""
    return [
        {"tool": "write_file", "arguments": {"path": "/tmp/reach.py", "content": _REACH}},
        terminal(f"python3 /tmp/reach.py {shlex.quote(json.dumps(targets))}"),
    ]


async def reached_from(pod: str, *, namespace: str, targets: Targets) -> Reached:
    """What an existing pod reaches."""
    command = ("python3", "-c", _REACH, json.dumps(targets))
    answer: Reached = json.loads(await kubectl.check("exec", pod, "-n", namespace, "--", *command))
    return answer


def _pod(name: str, program: str, *arguments: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["python3", "-uc", program, *arguments],
        "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}},
    }
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    metadata = {"name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


_SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "listener"},
    "spec": {"type": "NodePort", "selector": {"app": "listener"}, "ports": [{"port": _PORT}]},
}


@asynccontextmanager
async def listening(*, namespace: str, host: str, api_server: str) -> AsyncIterator[Targets]:
    """All targets, with a pod `listener` and a pod `control` beside it that no policy concerns."""
    listen = (_PAYLOADS / "listen.py").read_text()
    pods = (
        _pod("listener", listen, str(_PORT)),
        _pod("control", "import time; time.sleep(3600)"),
    )
    applied = await kubectl.apply(*pods, _SERVICE, namespace=namespace)
    assert applied.code == 0, applied.stderr
    ready = ("wait", "--for=condition=Ready", "pod/listener", "pod/control", "--timeout=300s")
    await kubectl.check(*ready, "-n", namespace)
    async with _this_machine(host) as port, _metadata_service():
        yield await _targets(namespace=namespace, host=host, port=port, api_server=api_server)


async def _targets(*, namespace: str, host: str, port: int, api_server: str) -> Targets:
    pod = (await kubectl.get("pod", "listener", namespace=namespace))["status"]["podIP"]
    service = (await kubectl.get("service", "listener", namespace=namespace))["spec"]
    (node, *_) = await kubectl.items("nodes", namespace=namespace)
    node_address = next(
        a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP"
    )
    (dns,) = await kubectl.items("services", namespace="kube-system", selector="k8s-app=kube-dns")
    api = await kubectl.get("service", "kubernetes", namespace="default")
    model = await kubectl.get("service", stack.MODEL_SERVICE, namespace=stack.NAMESPACE)
    url, registry = urlsplit(api_server), urlsplit(f"//{IMAGE}")
    return {
        "API server": ("tcp", str(url.hostname), url.port or 443),
        "API server's service": ("tcp", api["spec"]["clusterIP"], 443),
        "kubelet": ("tcp", node_address, 10250),
        "kubelet's read-only port": ("tcp", node_address, 10255),
        "etcd": ("tcp", node_address, 2379),
        "registry": ("tcp", str(registry.hostname), registry.port or 443),
        "host by TCP": ("tcp", host, port),
        "host by UDP": ("udp", host, port),
        "metadata": ("tcp", METADATA, 80),
        "another pod by TCP": ("tcp", pod, _PORT),
        "another pod by UDP": ("udp", pod, _PORT),
        "another pod by its service": ("tcp", service["clusterIP"], _PORT),
        "another pod by the node's port": ("tcp", node_address, service["ports"][0]["nodePort"]),
        "neighbours by IPv6": ("link", "", _PORT),
        "model server": ("tcp", model["spec"]["clusterIP"], 8000),
        "model server's pod": ("tcp", await _address_of("vllm"), 8000),
        "operator": ("tcp", await _address_of("operator"), 9090),
        "cluster DNS by TCP": ("tcp", dns["spec"]["clusterIP"], 53),
        "cluster DNS by UDP": ("udp", dns["spec"]["clusterIP"], 53),
        "a name": ("name", "kubernetes.default.svc.cluster.local", 0),
    }


async def _address_of(component: str) -> str:
    pods = await kubectl.items(
        "pods",
        namespace=stack.NAMESPACE,
        selector=f"app.kubernetes.io/component={component}",
    )
    return str(next(p["status"]["podIP"] for p in pods if p["status"].get("podIP")))


class _Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._transport.sendto(data, addr)


async def _hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


@asynccontextmanager
async def _this_machine(host: str) -> AsyncIterator[int]:
    """A port of this machine that answers by TCP and UDP."""
    async with await asyncio.start_server(_hang_up, host, 0) as server:
        port: int = server.sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(_Echo, (host, port))
        try:
            yield port
        finally:
            transport.close()


@asynccontextmanager
async def _metadata_service() -> AsyncIterator[None]:
    """The metadata address on this machine, with a listener that hangs up."""
    await _ip("address", "add", f"{METADATA}/32", "dev", "lo")
    try:
        async with await asyncio.start_server(_hang_up, METADATA, 80):
            yield
    finally:
        await _ip("address", "delete", f"{METADATA}/32", "dev", "lo")


async def _ip(*arguments: str) -> None:
    process = await asyncio.create_subprocess_exec("ip", *arguments, stderr=asyncio.subprocess.PIPE)
    _, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()
