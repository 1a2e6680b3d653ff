"""The built-in cluster as the command line sees it."""

from pathlib import Path

from rich.table import Table

from tests.testbed import cluster, teardown
from tests.testbed.console import step
from tests.testbed.daemons import api_ready, node_ready
from tests.testbed.paths import KUBECONFIG, LOGS, REGISTRY
from tests.testbed.processes import all_running

PARTS = (
    "etcd",
    "registry",
    "containerd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kube-router",
)


class BuiltIn:
    """A single node whose daemons run on this machine."""

    kubeconfig: Path = KUBECONFIG
    registry: str = REGISTRY

    def up(self) -> None:
        """Bring up or repair."""
        cluster.up()

    def down(self, purge: bool) -> None:
        """End everything; with `purge` the keys, images and logs go too."""
        with step("taking the testbed down"):
            teardown.wipe()
            if purge:
                cluster.purge()

    def status(self) -> tuple[Table, bool]:
        """One row per daemon; all is well when each runs and the node is ready."""
        running = {process.part: process for process in reversed(all_running())}
        table = Table("part", "state", "pid", "log")
        for name in PARTS:
            process = running.get(name)
            state = "[green]running[/]" if process else "[red]down[/]"
            table.add_row(
                name, state, str(process.pid) if process else "", str(LOGS / f"{name}.log")
            )
        answers, ready = api_ready(), node_ready()
        table.add_row("API server", "[green]ready[/]" if answers else "[red]not ready[/]", "", "")
        table.add_row("node", "[green]Ready[/]" if ready else "[red]not Ready[/]", "", "")
        return table, all(name in running for name in PARTS) and answers and ready
