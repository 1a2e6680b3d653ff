"""Base root filesystems from this machine's own Debian archive, for builds without a registry.

Where Docker builds, or where `--base` names an image, these are not used.
"""

import hashlib
import io
import re
import shutil
import tarfile
import tempfile
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
MUSL_PACKAGE = "musl"
ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
}


def key(base: str) -> str:
    """What decides the content of a base, as a short hash."""
    text = repr(_mmdebstrap_arguments()).encode() if base == "python" else BUSYBOX.read_bytes()
    return hashlib.sha256(text).hexdigest()[:12]


def tar(base: str) -> Path:
    """The root filesystem of a base as a tar file, made where it is not cached."""
    target = CACHE / f"{base}-{key(base)}.tar"
    if target.exists():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial.tar")
    partial.unlink(missing_ok=True)
    _MADE_BY[base](partial)
    partial.rename(target)
    return target


def _python(target: Path) -> None:
    say("making the python base from Debian packages (a minute or two)")

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
            "be pulled: --base python=python:3.11-slim-bookworm --base busybox=busybox:musl "
            "--base musl=alpine:3.22"
        )
    return found[1]


def _archives() -> list[str]:
    """Address, release and component of each archive that apt uses here."""
    listing = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"]
    listing.append("Created-By: Packages")
    if not run(listing).split():
        download(lambda: run(["apt-get", "-q", "update"]))
    return run(listing).splitlines()


def _sources() -> str:
    """The archives of this release that apt uses here, one line each."""
    targets = _archives()
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


def _musl(target: Path) -> None:
    """busybox, with musl's loader and C library beside it. Debian links no shell to musl."""
    _busybox(target)
    with tempfile.TemporaryDirectory() as folder:
        _archives()  # fetches lists of packages where there are none
        download(lambda: run(["apt-get", "-q", "download", MUSL_PACKAGE], cwd=Path(folder)))
        (package,) = Path(folder).glob("*.deb")
        files = Path(folder) / "files"
        run(["dpkg-deb", "--extract", package, files])
        with tarfile.open(target, "a") as archive:
            archive.add(files / "lib", "lib", filter=_owned_by_root)


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    return member.replace(uid=0, gid=0, uname="root", gname="root", deep=False)


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    archive.addfile(member, io.BytesIO(content))


_MADE_BY = {"busybox": _busybox, "musl": _musl, "python": _python}
