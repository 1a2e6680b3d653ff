"""Bringing the built-in cluster up, or repairing it: every step looks before it acts."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.testbed import configs, gobuild, network, packages, pki
from tests.testbed.console import console, step
from tests.testbed.daemons import Part, api_get, node_ready, parts
from tests.testbed.errors import TestbedError
from tests.testbed.paths import (
    BOOT_RECORD,
    CGROUP,
    CLUSTER_DOMAIN,
    DNS_ADDRESS,
    KUBECONFIG,
    LOGS,
    RUN,
    STATE,
)
from tests.testbed.processes import CGROUP_MOUNTS, find, start, stop
from tests.testbed.scratch_images import ScratchImage, push
from tests.testbed.shell import run, wait_until
from tests.testbed.teardown import wipe

ADDONS = Path(__file__).parent / "addons.yaml"
BUSYBOX = Path("/bin/busybox")
READY_SECONDS = 90.0
ADOPTED_SECONDS = 15.0
PARALLEL_BUILDS = 2
REPAIR = "run `python -m tests.testbed down` and `up` again; the images and builds are kept"


def up() -> None:
    """Leave a working cluster behind, whatever was there before."""
    programs = _prepare()
    _after_reboot()
    STATE.mkdir(parents=True, exist_ok=True)
    RUN.mkdir(parents=True, exist_ok=True)
    BOOT_RECORD.write_text(_boot_id())
    with step("network, keys and configuration"):
        network.ensure()
        _cgroups()
        pki.ensure()
        pause = ScratchImage("testbed/pause", BUSYBOX, ("/busybox", "sleep", "2147483647"))
        configs.write(pause.reference)
    coredns = ScratchImage("testbed/coredns", programs["coredns"] / "coredns", ("/coredns",))
    all_parts = parts(programs)
    _start_stage(all_parts, 0)
    with step("images of the testbed in the registry"):
        push(pause)
        push(coredns)
    _start_stage(all_parts, 1)
    with step("addons"):
        _apply_addons(programs["kubernetes"] / "kubectl", coredns.reference)
    _start_stage(all_parts, 2)
    _wait("node", node_ready, LOGS / "kubelet.log")
    _start_stage(all_parts, 3)  # kube-router ends itself where there is no node yet
    _wait("cluster DNS", _dns_ready, LOGS / "kubelet.log")
    _all_alive(all_parts)


def _prepare() -> dict[str, Path]:
    def build(module: gobuild.Module) -> tuple[str, Path]:
        with step(f"{module.name} from Go modules") as say:
            return module.name, gobuild.ensure(module, say)

    def install() -> None:
        with step("Debian packages") as say:
            packages.ensure(say)

    with ThreadPoolExecutor(PARALLEL_BUILDS + 1) as pool:
        installed = pool.submit(install)
        with ThreadPoolExecutor(PARALLEL_BUILDS) as builders:
            programs = dict(builders.map(build, gobuild.BUILT_IN))
        installed.result()
    return programs


def _after_reboot() -> None:
    """Start anew after a reboot: etcd runs without fsync, so its old data cannot be trusted."""
    if BOOT_RECORD.exists() and BOOT_RECORD.read_text() != _boot_id():
        console.print("the machine was rebooted: starting a fresh cluster (images are kept)")
        wipe()


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _cgroups() -> None:
    """Make the root of the pods' control groups in every hierarchy, version 1 or 2."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split()
        if kind not in ("cgroup", "cgroup2") or not Path(mount).is_relative_to(CGROUP_MOUNTS):
            continue
        group = Path(mount) / CGROUP
        if group.is_dir():
            continue
        group.mkdir()
        for name in ("cpuset.cpus", "cpuset.mems"):  # version 1 does not inherit these
            if (group / name).exists():
                (group / name).write_text((Path(mount) / name).read_text())


def _start_stage(all_parts: list[Part], stage: int) -> None:
    mine = [part for part in all_parts if part.stage == stage]
    names = ", ".join(part.daemon.name for part in mine)
    with step(names) as say, ThreadPoolExecutor(len(mine)) as pool:
        list(pool.map(lambda part: _ensure_part(part, say), mine))


def _ensure_part(part: Part, say: Callable[[str], None]) -> None:
    daemon = part.daemon
    running = find(daemon)
    if running is not None and running.fingerprint != daemon.fingerprint():
        say(f"{daemon.name} has a new configuration")
        stop([running])
        running = None
    if running is not None:
        if wait_until(part.ready, seconds=ADOPTED_SECONDS):
            return
        say(f"{daemon.name} runs but does not answer: restarting it")
        stop([running])
    started = start(daemon)
    say(f"waiting for {daemon.name}")
    answered = wait_until(lambda: started.poll() is not None or part.ready(), seconds=READY_SECONDS)
    if started.poll() is not None:
        raise TestbedError(
            f"{daemon.name} ended right after its start", hint=REPAIR, log=daemon.log
        )
    if not answered:
        message = f"{daemon.name} does not answer after {READY_SECONDS:.0f} s"
        raise TestbedError(message, hint=REPAIR, log=daemon.log)


def _all_alive(all_parts: list[Part]) -> None:
    for part in all_parts:
        if find(part.daemon) is None:
            message = f"{part.daemon.name} ended after it had started"
            raise TestbedError(message, hint=REPAIR, log=part.daemon.log)


def _apply_addons(kubectl: Path, coredns_image: str) -> None:
    values = {
        "@COREDNS_IMAGE@": coredns_image,
        "@CLUSTER_DOMAIN@": CLUSTER_DOMAIN,
        "@DNS_ADDRESS@": DNS_ADDRESS,
    }
    manifest = ADDONS.read_text()
    for name, value in values.items():
        manifest = manifest.replace(name, value)
    command = [str(kubectl), f"--kubeconfig={KUBECONFIG}", "apply", "--server-side", "-f", "-"]
    run([*command, "--field-manager=testbed", "--force-conflicts"], stdin=manifest, hint=REPAIR)


def _dns_ready() -> bool:
    path = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"
    try:
        deployment = json.loads(api_get(path))
    except OSError:
        return False
    status = deployment["status"]
    current = status.get("observedGeneration") == deployment["metadata"]["generation"]
    return bool(current and status.get("updatedReplicas") == status.get("availableReplicas") == 1)


def _wait(name: str, ready: Callable[[], bool], log: Path) -> None:
    with step(f"{name} ready"):
        if not wait_until(ready, seconds=READY_SECONDS, poll_seconds=0.2):
            message = f"{name} is not ready after {READY_SECONDS:.0f} s"
            raise TestbedError(message, hint=REPAIR, log=log)
