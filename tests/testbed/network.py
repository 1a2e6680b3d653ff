"""The node's side of the network: its address, the pods' bridge, masquerading, kernel settings."""

import json
from pathlib import Path

from tests.testbed.files import write_if_changed
from tests.testbed.paths import (
    CNI_CONFIG,
    CNI_DATA,
    NODE_ADDRESS,
    NODE_BRIDGE,
    POD_BRIDGE,
    POD_CIDR,
    POD_NETWORK,
    SYSCTL_RECORD,
)
from tests.testbed.shell import run, succeeds

NFT_TABLE = "episode_testbed"
WANTED = {"net.ipv4.ip_forward": "1", "net.bridge.bridge-nf-call-iptables": "1"}
CHANGED_BY_PARTS = (  # the kubelet and kube-router set these
    "kernel.keys.root_maxbytes",
    "kernel.keys.root_maxkeys",
    "kernel.panic",
    "kernel.panic_on_oops",
    "net.bridge.bridge-nf-call-ip6tables",
    "vm.overcommit_memory",
    "vm.panic_on_oom",
)
RULES = f"""
table ip {NFT_TABLE} {{
    chain postrouting {{
        type nat hook postrouting priority srcnat;
        ip saddr {POD_CIDR} ip daddr != {POD_CIDR} fib daddr type != local masquerade
    }}
}}
"""


def ensure() -> None:
    """Give the node its address, let pods reach out, and write the configuration for CNI."""
    _sysctls()
    if not succeeds(["ip", "link", "show", NODE_BRIDGE]):
        run(["ip", "link", "add", NODE_BRIDGE, "type", "bridge"])
    run(["ip", "address", "replace", f"{NODE_ADDRESS}/32", "dev", NODE_BRIDGE])
    run(["ip", "link", "set", NODE_BRIDGE, "up"])
    if not succeeds(["nft", "list", "table", "ip", NFT_TABLE]):
        run(["nft", "-f", "-"], stdin=RULES)
    bridge = {
        "type": "bridge",
        "bridge": POD_BRIDGE,
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(CNI_DATA),
            "ranges": [[{"subnet": POD_CIDR}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    # On the bridge link-local IPv6 would go past the policies, which are about IPv4 here.
    disabled = {f"net.ipv6.conf.{which}.disable_ipv6": "1" for which in ("all", "default")}
    tuning = {"type": "tuning", "sysctl": disabled}
    conflist = {"cniVersion": "1.0.0", "name": POD_NETWORK, "plugins": [bridge, tuning]}
    write_if_changed(CNI_CONFIG / "10-bridge.conflist", json.dumps(conflist, indent=2))


def remove() -> None:
    """Take the bridges, the masquerading and the kernel settings back."""
    for bridge in (POD_BRIDGE, NODE_BRIDGE):
        if succeeds(["ip", "link", "show", bridge]):
            run(["ip", "link", "delete", bridge])
    if succeeds(["nft", "list", "table", "ip", NFT_TABLE]):
        run(["nft", "delete", "table", "ip", NFT_TABLE])
    if SYSCTL_RECORD.exists():
        for name, value in json.loads(SYSCTL_RECORD.read_text()).items():
            _sysctl_file(name).write_text(value)
        SYSCTL_RECORD.unlink()


def _sysctls() -> None:
    if not SYSCTL_RECORD.exists():
        names = [name for name in (*WANTED, *CHANGED_BY_PARTS) if _sysctl_file(name).exists()]
        before = {name: _sysctl_file(name).read_text().strip() for name in names}
        SYSCTL_RECORD.parent.mkdir(parents=True, exist_ok=True)
        SYSCTL_RECORD.write_text(json.dumps(before, indent=2))
    for name, value in WANTED.items():
        _sysctl_file(name).write_text(value)


def _sysctl_file(name: str) -> Path:
    return Path("/proc/sys") / name.replace(".", "/")
