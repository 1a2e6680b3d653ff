"""Where the built-in testbed keeps things, and the addresses that it uses.

Everything lies in the user's cache folder except what must not outlive a boot (`RUN`).
"""

import os
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "episode-operator"
BIN = CACHE / "bin"
STATE = CACHE / "testbed"
LOGS = STATE / "logs"
PKI = STATE / "pki"
CONFIG = STATE / "config"
REGISTRY_STORAGE = STATE / "registry"
CONTAINERD_ROOT = STATE / "containerd"
CNI_CONFIG = STATE / "cni"
CNI_DATA = STATE / "cni-data"
ETCD_DATA = STATE / "etcd"
KUBELET_ROOT = STATE / "kubelet"
POD_LOGS = STATE / "pod-logs"
BOOT_RECORD = STATE / "boot"
SYSCTL_RECORD = STATE / "sysctl.json"
KUBECONFIG = STATE / "kubeconfig"

RUN = Path("/run/episode-testbed")
CONTAINERD_SOCKET = RUN / "containerd.sock"

NODE_NAME = "testbed"
NODE_BRIDGE = "ep-node"
NODE_ADDRESS = "10.99.0.1"
POD_BRIDGE = "ep-pods"
POD_NETWORK = "episode-testbed"
POD_CIDR = "10.244.0.0/22"
SERVICE_CIDR = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"
DNS_ADDRESS = "10.96.0.10"
CLUSTER_DOMAIN = "cluster.local"
CGROUP = "episode-testbed"

API_SERVER = f"https://{NODE_ADDRESS}:6443"
ETCD = "http://127.0.0.1:2379"
REGISTRY = f"{NODE_ADDRESS}:5000"
