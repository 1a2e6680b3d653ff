"""A cluster that the user brought: checked, used, never changed."""

import os
from pathlib import Path

from rich.table import Table

from tests.testbed.errors import TestbedError
from tests.testbed.shell import run, succeeds


class External:
    """The cluster of KUBECONFIG; its registry is named by TESTBED_REGISTRY."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    @property
    def registry(self) -> str:
        """`host:port` that this machine can push to and the cluster can pull from."""
        try:
            return os.environ["TESTBED_REGISTRY"]
        except KeyError:
            hint = "set TESTBED_REGISTRY to host:port of one that you may push to"
            raise TestbedError("the cluster of KUBECONFIG needs a registry", hint=hint) from None

    @property
    def host_address(self) -> str:
        """Address of this machine that the cluster's pods reach."""
        try:
            return os.environ["TESTBED_HOST_ADDRESS"]
        except KeyError:
            hint = "set TESTBED_HOST_ADDRESS to an address of this machine that pods reach"
            raise TestbedError("tests on the cluster of KUBECONFIG need it", hint=hint) from None

    def up(self) -> None:
        """Check that it answers."""
        hint = "unset KUBECONFIG to use a cluster of the testbed's own"
        run(["kubectl", "get", "--raw", "/readyz"], hint=hint, timeout_seconds=30)

    def down(self, purge: bool) -> None:
        """Refuse: it is not ours to end."""
        raise TestbedError(f"KUBECONFIG={self.kubeconfig} is not a cluster of the testbed")

    def status(self) -> tuple[Table, bool]:
        """One row: whether it answers."""
        ready = succeeds(["kubectl", "get", "--raw", "/readyz"])
        table = Table("cluster", "state")
        table.add_row(str(self.kubeconfig), "[green]ready[/]" if ready else "[red]not ready[/]")
        return table, ready
