"""kind and a registry container, for machines with a Docker engine."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from string import Template

from rich.table import Table

from tests.testbed import gobuild
from tests.testbed.console import step
from tests.testbed.paths import CACHE
from tests.testbed.shell import download, run, succeeds

NAME = "episode-testbed"
CONFIG = Path(__file__).parent / "kind.yaml"
KUBECONFIG = CACHE / "kind.kubeconfig"
REGISTRY_NAME = "episode-testbed-registry"
REGISTRY_IMAGE = "registry:2"
REGISTRY = "localhost:5001"


def engine_answers() -> bool:
    """Whether there is a working Docker engine, not just its client."""
    return succeeds(["docker", "info", "--format", "{{.ID}}"])


class Kind:
    """One kind node; its registry container has the same name from here and from the node."""

    kubeconfig: Path = KUBECONFIG
    registry: str = REGISTRY

    @property
    def host_address(self) -> str:
        """The gateway of kind's network: this machine, as its pods see it."""
        template = "{{(index .IPAM.Config 0).Gateway}}"
        return run(["docker", "network", "inspect", "kind", "--format", template]).strip()

    def up(self) -> None:
        """Bring up or repair."""
        with step("registry container") as say:
            if not self._runs(REGISTRY_NAME):
                succeeds(["docker", "rm", "--force", REGISTRY_NAME])
                publish = ["--publish", f"127.0.0.1:{REGISTRY.split(':')[1]}:5000"]
                name = ["--name", REGISTRY_NAME, "--restart=always"]
                command = ["docker", "run", "--detach", *name, *publish, REGISTRY_IMAGE]
                download(lambda: run(command), say)
        with step("kind cluster (minutes the first time)") as say:
            kind = self._program(say)
            if NAME not in run([kind, "get", "clusters"]).split():
                (CACHE / "vllm").mkdir(parents=True, exist_ok=True)
                config = Template(CONFIG.read_text()).substitute(CACHE=CACHE)
                create = [kind, "create", "cluster", f"--name={NAME}", "--config=-"]
                run([*create, f"--kubeconfig={KUBECONFIG}", "--wait=180s"], stdin=config)
            run(["docker", "start", f"{NAME}-control-plane"])
            run([kind, "export", "kubeconfig", f"--name={NAME}", f"--kubeconfig={KUBECONFIG}"])
        with step("registry under its name on the node"):
            self._join_registry()

    def down(self, purge: bool) -> None:
        """Delete the cluster; the registry with its images goes only with `purge`."""
        with step("taking kind down") as say:
            run([self._program(say), "delete", "cluster", f"--name={NAME}"])
            KUBECONFIG.unlink(missing_ok=True)
            if purge:
                succeeds(["docker", "rm", "--force", "--volumes", REGISTRY_NAME])

    def status(self) -> tuple[Table, bool]:
        """The containers and whether they run."""
        table = Table("container", "state")
        well = True
        for name in (f"{NAME}-control-plane", REGISTRY_NAME):
            runs = self._runs(name)
            well = well and runs
            table.add_row(name, "[green]running[/]" if runs else "[red]down[/]")
        return table, well

    def _program(self, say: Callable[[str], None]) -> str:
        return shutil.which("kind") or str(gobuild.ensure(gobuild.KIND, say) / "kind")

    def _runs(self, container: str) -> bool:
        if not succeeds(["docker", "inspect", container]):
            return False
        return bool(json.loads(run(["docker", "inspect", container]))[0]["State"]["Running"])

    def _join_registry(self) -> None:
        folder = f"/etc/containerd/certs.d/{REGISTRY}"
        hosts = f'[host."http://{REGISTRY_NAME}:5000"]\n'
        node = f"{NAME}-control-plane"
        run(["docker", "exec", node, "mkdir", "-p", folder])
        write = [
            "docker",
            "exec",
            "--interactive",
            node,
            "cp",
            "/dev/stdin",
            f"{folder}/hosts.toml",
        ]
        run(write, stdin=hosts)
        networks = json.loads(run(["docker", "inspect", REGISTRY_NAME]))[0]["NetworkSettings"]
        if "kind" not in networks["Networks"]:
            run(["docker", "network", "connect", "kind", REGISTRY_NAME])
