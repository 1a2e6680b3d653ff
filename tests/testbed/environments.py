"""Python environments in the cache folder, each made once, of exactly what lock files list."""

import fcntl
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.testbed.paths import CACHE
from tests.testbed.shell import download, run

UV = "uv==0.13.9"
NO_INDEX = "it needs a package index that serves PyPI"


def ensure_environment(
    environment: Path,
    say: Callable[[str], None],
    *,
    requirements: str,
    what: str,
    base: Path | None = None,
    any_python: bool = False,
    hint: str = NO_INDEX,
) -> Path:
    """The Python of an environment; returns at once when it is there and made of the same.

    Args:
        requirements: content of lock files with hashes; all of it is installed, and nothing else.
        what: what is downloaded, in words.
        base: the Python that it is made with, else the one that runs this.
        any_python: install also what asks for another version of Python.
        hint: what to do when packages cannot be had.

    Raises:
        TestbedError: packages cannot be had.
    """
    base = base or python_prefix() / "bin" / f"python3.{sys.version_info.minor}"
    python, stamp = environment / "bin" / "python", environment / ".made-of"
    file = environment.with_suffix(".txt")
    environment.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(environment.with_suffix(".lock")):
        made_of = hashlib.sha256(f"{UV} {base} {requirements}".encode()).hexdigest()
        if stamp.exists() and stamp.read_text() == made_of:
            return python
        stamp.unlink(missing_ok=True)
        uv = ensure_uv(CACHE, say)
        run([str(uv), "venv", "--clear", "--no-project", "--python", str(base), str(environment)])
        file.write_text(requirements)
        if any_python:  # uv would refuse it
            install = [str(uv.with_name("python")), "-m", "pip", "--python", str(python), "install"]
            install += ["--quiet", "--disable-pip-version-check", "--no-deps"]
            install += ["--ignore-requires-python", "--require-hashes", "-r", str(file)]
        else:
            install = [str(uv), "pip", "sync", "--link-mode", "copy", "--require-hashes"]
            install += ["--python", str(python), str(file)]
        say(f"downloading {what}")
        download(lambda: run(install, hint=hint), say)
        stamp.write_text(made_of)
    return python


def ensure_uv(cache: Path, say: Callable[[str], None]) -> Path:
    """The uv executable of the pinned version, in an environment of its own."""
    environment = cache / UV.replace("==", "-")
    uv = environment / "bin" / "uv"
    if not uv.exists():
        say(f"installing {UV}")
        run([sys.executable, "-m", "venv", "--clear", str(environment)])
        pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", UV]
        download(lambda: run(pip, hint=NO_INDEX), say)
    return uv


def python_prefix() -> Path:
    """The installation that this Python belongs to."""
    return Path(os.path.realpath(sys.base_prefix))


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock file, so that two testbeds that come up at once do the work once."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
