"""What goes into each image: the inputs that decide its content, and the folder that is built."""

import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from images._shell import CACHE, BuildError, download, run

REPOSITORY = Path(__file__).resolve().parent.parent
IMAGES = REPOSITORY / "images"
LOCKS = REPOSITORY / "requirements"
NINJA_LOCK = IMAGES / "task-musl" / "ninja.lock"
ABI = (3, 11)


@dataclass(frozen=True)
class Image:
    """An image: `inputs` are files whose content decides it, `prepare` fills the build folder."""

    name: str
    base: str | None
    inputs: Callable[[], Iterable[Path]]
    prepare: Callable[[Path], None]

    @property
    def containerfile(self) -> Path:
        """The instructions, alike for buildah and Docker."""
        return IMAGES / self.name / "Containerfile"

    def digest(self, base_key: str) -> str:
        """A hash of all that decides the content; it serves as the image's tag."""
        digest = hashlib.sha256(f"{self.name}|{base_key}|{platform.machine()}".encode())
        for file in (self.containerfile, *sorted(self.inputs())):
            digest.update(f"{file.relative_to(REPOSITORY)}\0".encode() + file.read_bytes())
        return digest.hexdigest()[:20]


def _plain(name: str, base: str | None) -> Image:
    """An image of the files beside its Containerfile, as they are."""

    def files() -> list[Path]:
        return [file for file in (IMAGES / name).iterdir() if file.name != "Containerfile"]

    def prepare(folder: Path) -> None:
        shutil.rmtree(folder)
        folder.mkdir()
        for file in files():
            shutil.copy(file, folder)

    return Image(name, base, files, prepare)


def _runner_inputs() -> Iterable[Path]:
    source = IMAGES / "runner"
    yield from (source / "go.mod", *source.glob("go.sum"))
    yield from (file for file in source.rglob("*.go") if not file.name.endswith("_test.go"))


def _prepare_runner(folder: Path) -> None:
    source = IMAGES / "runner"
    static = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
    download(lambda: run(["go", "list", "-deps", "."], cwd=source, env=static))
    flags = ["-trimpath", "-ldflags", "-s -w"]
    run(["go", "build", *flags, "-o", folder / "runner", "."], cwd=source, env=static)


def _python(name: str) -> Image:
    """An image of this project's own Python, with the dependencies of the lock of its name."""
    lock = LOCKS / f"{name}.lock"
    return Image(name, "python", partial(_python_inputs, lock), partial(_prepare_python, lock))


def _python_inputs(lock: Path) -> Iterable[Path]:
    yield from (lock, REPOSITORY / "pyproject.toml")
    for package in ("operator/episode_operator", "operator/episodectl", "trainer_bridge"):
        for file in (REPOSITORY / package).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file


def _prepare_python(lock: Path, folder: Path) -> None:
    """Install wheels for the image's Python on this machine, byte-compiled for a quick start.

    The dependencies are installed again only when the lock changes, and are a layer of their own:
    one archive, as comparing 15,000 files with the cached layer would take 12 seconds each time.
    """
    key = hashlib.sha256(lock.read_bytes() + f"{sys.version}{_platform()}".encode()).hexdigest()
    archive, marker = folder / "dependencies.tar", folder / "dependencies.key"
    if not marker.exists() or marker.read_text() != key:
        marker.unlink(missing_ok=True)
        locked = ["--require-hashes", "--only-binary=:all:", "--requirements", str(lock)]
        python = ["--python-version", ".".join(map(str, ABI)), "--python-platform", _platform()]
        _install(folder / "dependencies", [*python, *locked])
        owner = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]
        run(["tar", "--create", f"--file={archive}", *owner, "-C", folder, "dependencies"])
        shutil.rmtree(folder / "dependencies")
        marker.write_text(key)
    _install(folder / "project", ["--no-deps", str(REPOSITORY)])


def _install(target: Path, what: list[str]) -> None:
    shutil.rmtree(target, ignore_errors=True)
    options = ["--python", sys.executable, "--link-mode=copy", "--quiet"]
    command = [_uv(), "pip", "install", "--target", str(target), *options, *what]
    download(lambda: run(command))
    if sys.version_info[:2] == ABI:  # else the bytecode would be another version's
        compile_all = [sys.executable, "-m", "compileall", "-q", "-j", "0"]
        modes = ["--invalidation-mode", "unchecked-hash", "-s", str(target), "-p", "/app"]
        run([*compile_all, *modes, target])


def _musl_inputs() -> Iterable[Path]:
    yield NINJA_LOCK


def _prepare_musl(folder: Path) -> None:
    """The same small program twice, linked to musl and to glibc."""
    for libc in ("musl", "gnu"):
        target = str(folder / libc)
        shutil.rmtree(target, ignore_errors=True)
        linked = ["--python-platform", f"{platform.machine()}-unknown-linux-{libc}"]
        locked = ["--require-hashes", "--only-binary=:all:", "--requirements", str(NINJA_LOCK)]
        options = ["--python", sys.executable, "--link-mode=copy", "--quiet", *linked]
        command = [_uv(), "pip", "install", "--target", target, *options, *locked]
        download(partial(run, command))


def _platform() -> str:
    return f"{platform.machine()}-manylinux_2_28"


def _uv() -> str:
    found = os.environ.get("UV") or shutil.which("uv")
    if found:
        return found
    cached = sorted(CACHE.parent.glob("uv*/bin/uv"))
    if not cached:
        raise BuildError("the operator's and the bridge's image need uv: put it on PATH or set UV")
    return str(cached[-1])


ALL = (
    Image("runner", None, _runner_inputs, _prepare_runner),
    _python("operator"),
    _python("bridge"),
    _plain("task-python", "python"),
    _plain("task-busybox", "busybox"),
    _plain("task-scratch", None),
    _plain("task-distroless", "python"),
    Image("task-musl", "musl", _musl_inputs, _prepare_musl),
    _plain("task-user", "busybox"),
    _plain("task-odd", "busybox"),
    _plain("vllm-cpu", "python"),
)
