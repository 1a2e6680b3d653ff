"""Taking the built-in cluster down, and checking that nothing of it is left."""

import json
import re
import shutil
from pathlib import Path

from tests.testbed import network
from tests.testbed.errors import TestbedError
from tests.testbed.paths import (
    BOOT_RECORD,
    CGROUP,
    CNI_DATA,
    CONTAINERD_SOCKET,
    ETCD_DATA,
    KUBELET_ROOT,
    NODE_BRIDGE,
    POD_BRIDGE,
    POD_LOGS,
    RUN,
    STATE,
)
from tests.testbed.processes import (
    CGROUP_MOUNTS,
    all_running,
    container_pids,
    kill_containers,
    stop,
)
from tests.testbed.shell import run, succeeds, wait_until

CNI_RESULTS = Path("/var/lib/cni/results")
LOG_LINKS = Path("/var/log/containers")
SHIM_SOCKETS = Path("/run/containerd/s")
DEVICE_PLUGINS = Path("/var/lib/kubelet/device-plugins")
KUBE_PROXY_TABLES = (("ip", "kube-proxy"), ("ip6", "kube-proxy"))
ROUTER_RULES = re.compile(r"KUBE-ROUTER|KUBE-POD-FW|KUBE-NWPLCY|KUBE-SRC|KUBE-DST|kube-router")
ROUTER_SETS = re.compile(r"^(inet6:)?(KUBE-(SRC|DST|.*SVC|.*FW)|kube-router)")
GONE_SECONDS = 20.0
GRACE_SECONDS = 1.0  # what they would save is removed anyway


def wipe() -> None:
    """End every process, then undo mounts, network and cluster state; fail if something is left.

    Kept: keys, logs, images (in the registry and in containerd) and, outside `STATE`, the builds.
    """
    running = all_running()
    stop(process for process in running if process.part == "kubelet")
    kill_containers()
    _forget_containers()
    stop(all_running(), grace_seconds=GRACE_SECONDS)
    if not wait_until(_all_ended, seconds=GONE_SECONDS):
        raise TestbedError(f"processes that do not end: {_processes()}")
    _unmount()
    _remove_rules()
    network.remove()
    _remove_files()
    _remove_cgroups()
    left = leftovers()
    if left:
        raise TestbedError("the testbed left something behind:\n  " + "\n  ".join(left))


def leftovers() -> list[str]:
    """What of the testbed is still on the machine, each as one readable line; empty is good."""
    found = [f"process {text}" for text in _processes()]
    found += [f"mount {mount}" for mount in _mounts()]
    links = json.loads(run(["ip", "-json", "link", "show"]))
    names = [str(link["ifname"]) for link in links]
    masters = {str(link["ifname"]): link.get("master") for link in links}
    found += [
        f"interface {name}"
        for name in names
        if name in (NODE_BRIDGE, POD_BRIDGE) or masters[name] == POD_BRIDGE
    ]
    tables = (*KUBE_PROXY_TABLES, ("ip", network.NFT_TABLE))
    found += [f"nft table {' '.join(table)}" for table in tables if _table_exists(*table)]
    for save in ("iptables-save", "ip6tables-save"):
        found += [
            f"{save}: {line}" for line in run([save]).splitlines() if ROUTER_RULES.search(line)
        ]
    found += [f"ipset {name}" for name in _ipsets()]
    files = [RUN, ETCD_DATA, KUBELET_ROOT, POD_LOGS, CNI_DATA, DEVICE_PLUGINS]
    files += [*_cni_results(), *CGROUP_MOUNTS.glob(f"*/{CGROUP}")]
    found += [f"file {file}" for file in files if file.exists()]
    return found


def _all_ended() -> bool:
    kill_containers()  # again and again: what forks fast outruns one round
    return not (all_running() or container_pids())


def _processes() -> list[str]:
    ours = [f"{process.pid} ({process.part}: {process.program})" for process in all_running()]
    return ours + [f"{pid} (in a pod)" for pid in container_pids()]


def _forget_containers() -> None:
    """Drop the containers from containerd's records, so that the next cluster starts clean.

    Deleting the tasks exits 1 where a container has none; what matters is checked at the end.
    """
    ctr = ["ctr", "--address", str(CONTAINERD_SOCKET), "--namespace", "k8s.io"]
    if not succeeds([*ctr, "version"], timeout_seconds=5):
        return  # it is down: the next kubelet removes pods that its API server does not know
    containers = run([*ctr, "containers", "list", "--quiet"]).split()
    if containers:
        succeeds([*ctr, "tasks", "delete", "--force", *containers], timeout_seconds=120)
        run([*ctr, "containers", "delete", *containers])


def _mounts() -> list[str]:
    roots = tuple(f"{root}/" for root in (RUN, STATE))
    lines = Path("/proc/self/mounts").read_text().splitlines()
    points = (line.split()[1].encode().decode("unicode_escape") for line in lines)
    return [point for point in points if f"{point}/".startswith(roots)]


def _unmount() -> None:
    for mount in sorted(_mounts(), key=len, reverse=True):
        run(["umount", mount])


def _remove_rules() -> None:
    for family, table in KUBE_PROXY_TABLES:
        if _table_exists(family, table):
            run(["nft", "delete", "table", family, table])
    for prefix, family in (("iptables", "ip"), ("ip6tables", "ip6")):
        saved = run([f"{prefix}-save"])
        kept = [line for line in saved.splitlines() if not ROUTER_RULES.search(line)]
        if kept != saved.splitlines():
            run([f"{prefix}-restore"], stdin="\n".join(kept) + "\n")
            _remove_empty_tables(prefix, family)
    for name in _ipsets():
        run(["ipset", "destroy", name])


def _remove_empty_tables(prefix: str, family: str) -> None:
    """Delete the tables that iptables made for kube-router, where nobody else has rules in them."""
    for table in re.split(r"^\*", run([f"{prefix}-save"]), flags=re.MULTILINE)[1:]:
        name, *lines = table.splitlines()
        used = any(line.startswith("-A") for line in lines)
        changed = any(re.match(r":\S+ (?!ACCEPT)", line) for line in lines)
        if not used and not changed and _table_exists(family, name):
            run(["nft", "delete", "table", family, name])


def _ipsets() -> list[str]:
    return [name for name in run(["ipset", "list", "-name"]).split() if ROUTER_SETS.match(name)]


def _table_exists(family: str, table: str) -> bool:
    return succeeds(["nft", "list", "table", family, table])


def _remove_files() -> None:
    if LOG_LINKS.is_dir():
        for link in LOG_LINKS.iterdir():
            if link.is_symlink() and link.readlink().is_relative_to(POD_LOGS):
                link.unlink()
        _remove_if_empty(LOG_LINKS)
    for address in RUN.glob("containerd/io.containerd.runtime.v2.task/*/*/address"):
        Path(address.read_text().removeprefix("unix://")).unlink(missing_ok=True)
    for folder in (RUN, ETCD_DATA, KUBELET_ROOT, POD_LOGS, CNI_DATA, DEVICE_PLUGINS):
        if folder.exists():
            shutil.rmtree(folder)
    _remove_if_empty(DEVICE_PLUGINS.parent)
    for result in _cni_results():
        result.unlink()
    for folder in (CNI_RESULTS, CNI_RESULTS.parent, SHIM_SOCKETS, SHIM_SOCKETS.parent):
        _remove_if_empty(folder)
    BOOT_RECORD.unlink(missing_ok=True)


def _cni_results() -> list[Path]:
    """Results that CNI keeps in one place for all of a machine: ours name our pods' namespaces."""
    return [file for file in CNI_RESULTS.glob("*") if str(RUN) in file.read_text()]


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _remove_cgroups() -> None:
    for root in CGROUP_MOUNTS.glob(f"*/{CGROUP}"):
        groups = [root, *(group for group in root.rglob("*") if group.is_dir())]
        for group in sorted(groups, key=lambda path: len(path.parts), reverse=True):
            group.rmdir()
