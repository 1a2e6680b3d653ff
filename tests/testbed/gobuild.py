"""Programs built from pinned Go modules, cached by everything that decides their content."""

import hashlib
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.environments import exclusive
from tests.testbed.paths import BIN
from tests.testbed.shell import download, run

MODULES = Path(__file__).parent / "go"
HINT = "install Go 1.26 or later (https://go.dev/dl) and put it on PATH"
KUBERNETES_VERSION = "v1.34.4"
_download_lock = threading.Lock()


@dataclass(frozen=True)
class Module:
    """A folder of `go/` whose `package` pattern builds the named programs."""

    name: str
    programs: tuple[str, ...]
    package: str = "tool"
    link_flags: str = "-s -w"


KUBERNETES = Module(
    "kubernetes",
    (
        "kube-apiserver",
        "kube-controller-manager",
        "kube-proxy",
        "kube-scheduler",
        "kubectl",
        "kubelet",
    ),
    link_flags=f"-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}",
)
KUBE_ROUTER = Module("kube-router", ("kube-router",))
COREDNS = Module("coredns", ("coredns",), package=".")
HELM = Module("helm", ("helm",))
KIND = Module("kind", ("kind",))
VERSITYGW = Module("versitygw", ("versitygw",))
KWOK = Module("kwok", ("kwok",))
BUILT_IN = (KUBERNETES, KUBE_ROUTER, COREDNS, HELM)


def ensure(module: Module, say: Callable[[str], None]) -> Path:
    """Build the module's programs unless they are cached; return the folder that holds them.

    `BIN/<program>` is left pointing at the current build, for people.
    """
    folder = BIN / f"{module.name}-{_digest(module)}"
    BIN.mkdir(parents=True, exist_ok=True)
    with exclusive(BIN / f"{module.name}.lock"):
        if not all((folder / program).exists() for program in module.programs):
            _build(module, folder, say)
        for program in module.programs:
            _link(BIN / program, folder / program)
    return folder


def _build(module: Module, folder: Path, say: Callable[[str], None]) -> None:
    source = MODULES / module.name
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
    say("downloading modules")
    listing = ["go", "list", "-deps", module.package]
    with _download_lock:  # the module proxy is not faster for two at once, and the log is clearer
        download(lambda: run(listing, cwd=source, env=environment, hint=HINT), say)
    say("compiling (minutes when nothing is cached)")
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    flags = ["-trimpath", "-ldflags", module.link_flags]
    # The fine-tune beside it goes first: its threads wait for each other, so that sharing a core
    # with a compiler costs it ten times what it costs the compiler.
    build = ["nice", "-n", "15", "go", "build", *flags, "-o", f"{partial}/", module.package]
    run(build, cwd=source, env=environment)
    for stale in BIN.glob(f"{module.name}-*"):
        if stale != partial and stale.name.removeprefix(f"{module.name}-").isalnum():
            shutil.rmtree(stale)
    partial.rename(folder)


def _digest(module: Module) -> str:
    source = MODULES / module.name
    digest = hashlib.sha256(run(["go", "version"], hint=HINT).encode())
    digest.update(f"{module.link_flags}|{module.package}|{module.programs}".encode())
    for file in sorted(source.iterdir()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    temporary = link.with_name(link.name + ".new")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(link)
