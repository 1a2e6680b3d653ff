"""The daemons of the built-in cluster: commands, and what tells that each one works."""

import json
import shutil
import ssl
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import configs
from tests.testbed.errors import TestbedError
from tests.testbed.paths import (
    API_SERVER,
    CONTAINERD_SOCKET,
    ETCD,
    ETCD_DATA,
    KUBELET_ROOT,
    NODE_ADDRESS,
    NODE_NAME,
    PKI,
    POD_CIDR,
    REGISTRY,
    SERVICE_CIDR,
)
from tests.testbed.pki import kubeconfig_of
from tests.testbed.processes import Daemon
from tests.testbed.shell import succeeds

PROBE_SECONDS = 3.0


@dataclass(frozen=True)
class Part:
    """A daemon with its check. Parts of a later stage start when the earlier stages are ready."""

    daemon: Daemon
    ready: Callable[[], bool]
    stage: int


def parts(programs: dict[str, Path]) -> list[Part]:
    """All daemons, in the order of their stages; `programs` maps a module to its folder."""
    kubernetes, router = programs["kubernetes"], programs["kube-router"]
    return [
        Part(_etcd(), lambda: _http(f"{ETCD}/health"), 0),
        Part(_registry(), lambda: _http(f"http://{REGISTRY}/v2/"), 0),
        Part(_containerd(), containerd_answers, 0),
        Part(_api_server(kubernetes), api_ready, 1),
        Part(_controllers(kubernetes), lambda: _https("127.0.0.1:10257"), 2),
        Part(_scheduler(kubernetes), lambda: _https("127.0.0.1:10259"), 2),
        Part(_kubelet(kubernetes), lambda: _http("http://127.0.0.1:10248/healthz"), 2),
        Part(_proxy(kubernetes), lambda: _http("http://127.0.0.1:10256/livez"), 2),
        Part(_router(router), _policies_enforced, 3),
    ]


def api_get(path: str) -> str:
    """Read a path of the API server as the administrator; OSError when it does not answer."""
    context = ssl.create_default_context(cafile=str(PKI / "ca.crt"))
    context.load_cert_chain(PKI / "admin.crt", PKI / "admin.key")
    with urllib.request.urlopen(
        API_SERVER + path, timeout=PROBE_SECONDS, context=context
    ) as answer:
        return str(answer.read().decode())


def api_ready() -> bool:
    """Whether the API server serves."""
    try:
        return api_get("/readyz") == "ok"
    except OSError:
        return False


def node_ready() -> bool:
    """Whether the node is Ready, by the kubelet's own current report."""
    try:
        node = json.loads(api_get(f"/api/v1/nodes/{NODE_NAME}"))
    except OSError:
        return False
    conditions = {item["type"]: item["status"] for item in node["status"].get("conditions", [])}
    return conditions.get("Ready") == "True"


def containerd_answers() -> bool:
    """Whether containerd serves on our socket."""
    return succeeds(["ctr", "--address", str(CONTAINERD_SOCKET), "version"], timeout_seconds=5)


def _policies_enforced() -> bool:
    """Whether kube-router lives and its rules stand; its health alone says yes before they do."""
    return _http("http://127.0.0.1:20244/healthz") and succeeds(
        ["iptables", "--wait", "--list-rules", "KUBE-ROUTER-FORWARD"]
    )


def _http(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=PROBE_SECONDS):
            return True
    except OSError:
        return False


def _https(address: str) -> bool:
    unverified = ssl._create_unverified_context()  # a self-signed certificate on loopback
    try:
        with urllib.request.urlopen(
            f"https://{address}/healthz", timeout=PROBE_SECONDS, context=unverified
        ):
            return True
    except OSError:
        return False


def _installed(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise TestbedError(f"{program} is not on PATH after its package was installed")
    return found


def _etcd() -> Daemon:
    return Daemon(
        "etcd",
        (
            _installed("etcd"),
            f"--data-dir={ETCD_DATA}",
            f"--listen-client-urls={ETCD}",
            f"--advertise-client-urls={ETCD}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--unsafe-no-fsync",
            "--quota-backend-bytes=4294967296",
            "--auto-compaction-mode=periodic",
            "--auto-compaction-retention=10m",
            "--logger=zap",
            "--log-level=warn",
        ),
    )


def _registry() -> Daemon:
    argv = (_installed("docker-registry"), "serve", str(configs.DOCKER_REGISTRY))
    return Daemon("registry", argv, files=(configs.DOCKER_REGISTRY,))


def _containerd() -> Daemon:
    argv = (_installed("containerd"), "--config", str(configs.CONTAINERD))
    return Daemon("containerd", argv, files=(configs.CONTAINERD,))


def _api_server(programs: Path) -> Daemon:
    argv = (
        str(programs / "kube-apiserver"),
        f"--advertise-address={NODE_ADDRESS}",
        "--allow-privileged=true",
        "--authorization-mode=Node,RBAC",
        f"--bind-address={NODE_ADDRESS}",
        f"--client-ca-file={PKI}/ca.crt",
        "--enable-admission-plugins=NodeRestriction",
        f"--etcd-servers={ETCD}",
        f"--kubelet-client-certificate={PKI}/apiserver-kubelet.crt",
        f"--kubelet-client-key={PKI}/apiserver-kubelet.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={PKI}/service-accounts.pub",
        f"--service-account-signing-key-file={PKI}/service-accounts.key",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        f"--tls-cert-file={PKI}/apiserver.crt",
        f"--tls-private-key-file={PKI}/apiserver.key",
    )
    return Daemon("kube-apiserver", argv, files=(PKI / "ca.crt", PKI / "apiserver.crt"))


def _controllers(programs: Path) -> Daemon:
    argv = (
        str(programs / "kube-controller-manager"),
        "--bind-address=127.0.0.1",
        f"--cluster-cidr={POD_CIDR}",
        f"--kubeconfig={kubeconfig_of('kube-controller-manager')}",
        "--leader-elect=false",
        f"--root-ca-file={PKI}/ca.crt",
        f"--service-account-private-key-file={PKI}/service-accounts.key",
        "--use-service-account-credentials=true",
    )
    return Daemon("kube-controller-manager", argv, files=(PKI / "ca.crt",))


def _scheduler(programs: Path) -> Daemon:
    argv = (
        str(programs / "kube-scheduler"),
        "--bind-address=127.0.0.1",
        f"--kubeconfig={kubeconfig_of('kube-scheduler')}",
        "--leader-elect=false",
    )
    return Daemon("kube-scheduler", argv, files=(PKI / "ca.crt",))


def _kubelet(programs: Path) -> Daemon:
    argv = (
        str(programs / "kubelet"),
        f"--cert-dir={KUBELET_ROOT}/pki",
        f"--config={configs.KUBELET}",
        f"--hostname-override={NODE_NAME}",
        f"--kubeconfig={kubeconfig_of('kubelet')}",
        f"--node-ip={NODE_ADDRESS}",
        f"--root-dir={KUBELET_ROOT}",
    )
    return Daemon("kubelet", argv, files=(configs.KUBELET, PKI / "ca.crt"))


def _proxy(programs: Path) -> Daemon:
    argv = (
        str(programs / "kube-proxy"),
        f"--config={configs.KUBE_PROXY}",
        f"--hostname-override={NODE_NAME}",
    )
    return Daemon("kube-proxy", argv, files=(configs.KUBE_PROXY, PKI / "ca.crt"))


def _router(programs: Path) -> Daemon:
    argv = (
        str(programs / "kube-router"),
        "--run-firewall=true",
        "--run-router=false",
        "--run-service-proxy=false",
        "--run-loadbalancer=false",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        f"--hostname-override={NODE_NAME}",
        f"--kubeconfig={kubeconfig_of('kube-router')}",
        "--health-port=20244",
        "--metrics-port=0",
    )
    return Daemon("kube-router", argv, files=(PKI / "ca.crt",))
