"""The Debian packages of the built-in testbed, installed where they are missing."""

import os
import shutil
import subprocess
from collections.abc import Callable, Collection

from tests.testbed.errors import TestbedError
from tests.testbed.shell import download, run

PACKAGES = (
    "buildah",
    "busybox-static",
    "conntrack",
    "containerd",
    "containernetworking-plugins",
    "docker-registry",
    "ethtool",
    "etcd-server",
    "iproute2",
    "ipset",
    "iptables",
    "mmdebstrap",
    "nftables",
    "openssl",
    "runc",
    "skopeo",
    "socat",
)
HINT = (
    "the built-in testbed needs root on Debian 12 or a derivative with its package archive; "
    "elsewhere set KUBECONFIG to a cluster, or start Docker and kind is used"
)


def ensure(say: Callable[[str], None]) -> None:
    """Install what is missing; nothing is asked of the network when all is there."""
    if os.geteuid() != 0:
        raise TestbedError("the built-in testbed runs containers: it needs root", hint=HINT)
    if shutil.which("dpkg-query") is None:
        raise TestbedError("the built-in testbed needs Debian packages", hint=HINT)
    install(PACKAGES, say)


def install(names: Collection[str], say: Callable[[str], None]) -> None:
    """Install what is missing of these packages."""
    missing = sorted(set(names) - _installed(names))
    if not missing:
        return
    say(f"installing {', '.join(missing)}")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "-q", "-y", "-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=300"]
    download(lambda: run([*apt, "update"], env=quiet, hint=HINT), say)
    wanted = [*apt, "install", "--no-install-recommends", *missing]
    download(lambda: run(wanted, env=quiet, hint=HINT), say)


def program(name: str, package: str, say: Callable[[str], None]) -> str:
    """Path of a program; Debian's package is installed if it is not on PATH.

    Raises:
        TestbedError: there is no such program in the package.
    """
    found = shutil.which(name)
    if found is None:
        install([package], say)
        found = shutil.which(name)
    if found is None:
        raise TestbedError(f"package {package} brings no program {name}", hint=HINT)
    return found


def _installed(names: Collection[str]) -> set[str]:
    status = ["--showformat", "${Package} ${db:Status-Status}\\n", *names]
    listing = subprocess.run(  # it exits 1 when a package is unknown, and lists the others
        ["dpkg-query", "--show", *status], capture_output=True, text=True, check=False
    ).stdout
    rows = (line.split() for line in listing.splitlines())
    return {name for name, state in rows if state == "installed"}
