"""Base root filesystems from this machine's own Debian archive, for builds without a registry.

Where Docker builds, or where `--base` names an image, these are not used.
"""

import hashlib
import io
import re
import shutil
import tarfile
from pathlib import Path

from images._shell import CACHE, BuildError, download, run, say

PYTHON_PACKAGES = (
    "bash",
    "ca-certificates",
    "coreutils",
    "libgomp1",
    "libnuma1",
    "libstdc++6",
    "procps",
    "python3",
    "python3-pytest",
)
EXCLUDED = ("doc", "info", "locale", "man")
BUSYBOX = Path("/bin/busybox")
ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
}


def key(base: str) -> str:
    """What decides the content of a base, as a short hash."""
    text = BUSYBOX.read_bytes() if base == "busybox" else repr(_mmdebstrap_arguments()).encode()
    return hashlib.sha256(text).hexdigest()[:12]


def tar(base: str) -> Path:
    """The root filesystem of `python` or `busybox` as a tar file, made where it is not cached."""
    target = CACHE / f"{base}-{key(base)}.tar"
    if target.exists():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial.tar")
    partial.unlink(missing_ok=True)
    if base == "busybox":
        _busybox(partial)
    else:
        say(f"making the {base} base from Debian packages (a minute or two)")
        _python(partial)
    partial.rename(target)
    return target


def _python(target: Path) -> None:
    def attempt() -> str:
        target.unlink(missing_ok=True)
        return run(["mmdebstrap", *_mmdebstrap_arguments(), target, "-"], stdin=_sources())

    download(attempt)


def _mmdebstrap_arguments() -> list[str]:
    excluded = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in EXCLUDED]
    packages = f"--include={','.join(PYTHON_PACKAGES)}"
    return ["--variant=essential", "--quiet", *excluded, packages, _codename()]


def _codename() -> str:
    release = Path("/etc/os-release").read_text()
    found = re.search(r"^VERSION_CODENAME=(\S+)$", release, re.MULTILINE)
    if found is None or shutil.which("mmdebstrap") is None:
        raise BuildError(
            "base images are made by mmdebstrap on Debian: install it, or name bases that can "
            "be pulled: --base python=python:3.11-slim-bookworm --base busybox=busybox:musl"
        )
    return found[1]


def _sources() -> str:
    """The archives of this release that apt uses here, one line each."""
    listing = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"]
    targets = run([*listing, "Created-By: Packages"]).splitlines()
    if not targets:
        download(lambda: run(["apt-get", "-q", "update"]))
        targets = run([*listing, "Created-By: Packages"]).splitlines()
    codename = _codename()
    wanted = [
        line for line in targets if re.match(rf"{codename}(-(updates|security))?$", line.split()[1])
    ]
    if not wanted:
        raise BuildError(f"apt knows no archive of {codename} on this machine")
    return "".join(f"deb {line}\n" for line in dict.fromkeys(wanted))


def _busybox(target: Path) -> None:
    if not BUSYBOX.exists():
        raise BuildError("the busybox base needs the package busybox-static")
    with tarfile.open(target, "w") as archive:
        for folder, mode in (("bin", 0o755), ("etc", 0o755), ("root", 0o700), ("tmp", 0o1777)):
            member = tarfile.TarInfo(folder)
            member.type, member.mode = tarfile.DIRTYPE, mode
            archive.addfile(member)
        _add(archive, "bin/busybox", BUSYBOX.read_bytes(), 0o755)
        for name in run([BUSYBOX, "--list"]).split():
            if name != "busybox":
                member = tarfile.TarInfo(f"bin/{name}")
                member.type, member.linkname = tarfile.SYMTYPE, "busybox"
                archive.addfile(member)
        for name, content in ACCOUNTS.items():
            _add(archive, name, content.encode(), 0o644)


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    archive.addfile(member, io.BytesIO(content))
