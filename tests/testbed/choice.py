"""Which of the three clusters is in use, behind one interface."""

import os
from pathlib import Path
from typing import Protocol

from rich.table import Table

from tests.testbed import built_in, external, kind
from tests.testbed.paths import KUBECONFIG


class Cluster(Protocol):
    """What the command line asks of a cluster."""

    @property
    def kubeconfig(self) -> Path:
        """The file that `kubectl` takes."""

    @property
    def registry(self) -> str:
        """`host:port` to push to; the cluster pulls under the same name."""

    @property
    def host_address(self) -> str:
        """Address of this machine that pods reach."""

    def up(self) -> None:
        """Bring up or repair."""

    def down(self, purge: bool) -> None:
        """End, and leave nothing behind."""

    def status(self) -> tuple[Table, bool]:
        """A table of the parts, and whether all is well."""


def current() -> Cluster:
    """KUBECONFIG if it is set to a cluster that is not ours, else kind, else the built-in one."""
    given = os.environ.get("KUBECONFIG", "")
    ours = {str(KUBECONFIG), str(kind.KUBECONFIG)}
    if given and given not in ours:
        return external.External(Path(given))
    if given != str(KUBECONFIG) and kind.engine_answers():
        return kind.Kind()
    return built_in.BuiltIn()
