"""The built-in cluster as the command line sees it."""

import shutil
from pathlib import Path

from rich.table import Table

from tests.testbed import cluster, teardown
from tests.testbed.console import step
from tests.testbed.daemons import api_ready, node_ready
from tests.testbed.paths import KUBECONFIG, LOGS, NODE_ADDRESS, REGISTRY, STATE
from tests.testbed.processes import find_part

PROGRAMS = {
    "etcd": "etcd",
    "registry": "docker-registry",
    "containerd": "containerd",
    "kube-apiserver": "kube-apiserver",
    "kube-controller-manager": "kube-controller-manager",
    "kube-scheduler": "kube-scheduler",
    "kubelet": "kubelet",
    "kube-proxy": "kube-proxy",
    "kube-router": "kube-router",
}
WELL, BAD = "[green]{}[/]", "[red]{}[/]"


class BuiltIn:
    """A single node whose daemons run on this machine."""

    kubeconfig: Path = KUBECONFIG
    registry: str = REGISTRY
    host_address: str = NODE_ADDRESS

    def up(self) -> None:
        """Bring up or repair."""
        cluster.up()

    def down(self, purge: bool) -> None:
        """End everything; with `purge` the keys, images and logs go too."""
        if not STATE.exists():
            return
        with step("taking the testbed down"):
            teardown.wipe()
            if purge:
                shutil.rmtree(STATE)

    def status(self) -> tuple[Table, bool]:
        """One row per daemon; all is well when each runs and the node is ready."""
        table = Table("part", "state", "pid", caption=f"logs: {LOGS}")
        well = True
        for name, program in PROGRAMS.items():
            process = find_part(name, program)
            well = well and process is not None
            if process is None:
                table.add_row(name, BAD.format("down"), "")
            else:
                table.add_row(name, WELL.format("running"), str(process.pid))
        for name, ready in (("API server", api_ready()), ("node", node_ready())):
            well = well and ready
            table.add_row(name, WELL.format("ready") if ready else BAD.format("not ready"), "")
        return table, well
