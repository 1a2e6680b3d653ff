"""Configuration files of the built-in cluster's daemons, written before each start."""

import json
from pathlib import Path
from typing import Any

from tests.testbed.files import write_if_changed
from tests.testbed.paths import (
    CGROUP,
    CLUSTER_DOMAIN,
    CNI_CONFIG,
    CONFIG,
    CONTAINERD_ROOT,
    CONTAINERD_SOCKET,
    DNS_ADDRESS,
    NODE_ADDRESS,
    PKI,
    POD_BRIDGE,
    POD_LOGS,
    REGISTRY,
    REGISTRY_STORAGE,
    RUN,
)

CONTAINERD = CONFIG / "containerd.toml"
KUBELET = CONFIG / "kubelet.json"
KUBE_PROXY = CONFIG / "kube-proxy.json"
DOCKER_REGISTRY = CONFIG / "registry.json"
CERTS = CONFIG / "certs.d"
MAX_PODS = 250


def write(pause_image: str) -> None:
    """Write all of them; a file that does not change keeps its daemon running."""
    write_if_changed(CONTAINERD, _containerd(pause_image))
    _json(KUBELET, _kubelet())
    _json(KUBE_PROXY, _kube_proxy())
    _json(DOCKER_REGISTRY, _registry())
    hosts = CERTS / REGISTRY / "hosts.toml"
    address = f'"http://{REGISTRY}"'
    write_if_changed(
        hosts, f'server = {address}\n[host.{address}]\ncapabilities = ["pull", "resolve"]\n'
    )


def _json(file: Path, document: dict[str, Any]) -> None:
    write_if_changed(file, json.dumps(document, indent=2))


def _containerd(pause_image: str) -> str:
    # The opt plugin would leave /opt/containerd behind; the other snapshotters only log errors.
    # restrict_oom_score_adj: without CAP_SYS_RESOURCE a pod could not start at all.
    return f"""version = 2
root = "{CONTAINERD_ROOT}"
state = "{RUN}/containerd"
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]
[grpc]
address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause_image}"
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
max_concurrent_downloads = 8
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "{CERTS}"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{CNI_CONFIG}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
Root = "{RUN}/runc"
SystemdCgroup = false
"""


def _kubelet() -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(PKI / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{CGROUP}",
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": CLUSTER_DOMAIN,
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "eventRecordQPS": 0,
        "evictionHard": {
            "imagefs.available": "1%",
            "memory.available": "200Mi",
            "nodefs.available": "1%",
        },
        "failCgroupV1": False,
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "kubeAPIBurst": 1000,
        "kubeAPIQPS": 500,
        "makeIPTablesUtilChains": False,  # kube-proxy does without them in nftables mode
        "maxPods": MAX_PODS,
        "podLogsDir": str(POD_LOGS),
        "podPidsLimit": 1024,
        "registryPullQPS": 0,
        "resolvConf": "/etc/resolv.conf",
        "serializeImagePulls": False,
    }


def _kube_proxy() -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "bindAddress": NODE_ADDRESS,
        "clientConnection": {"kubeconfig": str(PKI / "kube-proxy.kubeconfig")},
        "conntrack": {"maxPerCore": 0, "min": 0},  # leave the kernel's settings alone
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "mode": "nftables",
        "nftables": {"minSyncPeriod": "100ms"},
        "detectLocalMode": "BridgeInterface",
        "detectLocal": {"bridgeInterface": POD_BRIDGE},
    }


def _registry() -> dict[str, Any]:
    return {
        "version": "0.1",
        "log": {"level": "warn"},
        "storage": {
            "filesystem": {"rootdirectory": str(REGISTRY_STORAGE)},
            "delete": {"enabled": True},
            "cache": {"blobdescriptor": "inmemory"},
        },
        "http": {"addr": REGISTRY, "secret": "testbed"},
    }
