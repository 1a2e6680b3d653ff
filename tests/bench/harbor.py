"""Harbor's Python environment: made once in the cache folder, with exactly what harbor.lock lists.

    python -m tests.bench.harbor             make the environment, print its Python
    python -m tests.bench.harbor --lock      write harbor.lock anew (after a change of harbor.in)

Harbor wants a newer Python than ours, and many packages that are of no use to us.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.testbed.console import step
from tests.testbed.environments import ensure_environment, ensure_uv
from tests.testbed.errors import TestbedError
from tests.testbed.paths import CACHE
from tests.testbed.shell import run

HOME = CACHE / "bench"
REQUIREMENTS = Path(__file__).with_name("harbor.in")
LOCK = REQUIREMENTS.with_suffix(".lock")
OLDEST = (3, 12)


def ensure_harbor(say: Callable[[str], None]) -> Path:
    """The Python of Harbor's environment; at once when it is there, else in about a minute.

    Raises:
        TestbedError: there is no Python for it on this machine, or packages cannot be had.
    """
    return ensure_environment(
        HOME / "harbor",
        say,
        requirements=LOCK.read_text(),
        what="Harbor and what it needs, 130 packages",
        base=_base(),
    )


def relock(say: Callable[[str], None]) -> None:
    """Resolve harbor.in anew for Python 3.12 and later, and write harbor.lock."""
    compile_ = [str(ensure_uv(CACHE, say)), "pip", "compile", "--upgrade", "--quiet"]
    compile_ += ["--universal", "--python", str(_base()), "--python-version", "3.12"]
    compile_ += ["--generate-hashes", "--no-header", "--no-annotate"]
    compile_ += ["--no-emit-index-url", "--no-emit-find-links", "--output-file", str(LOCK)]
    run([*compile_, str(REQUIREMENTS)])


def _base() -> Path:
    """The oldest Python on this machine that is new enough: the likeliest to have wheels."""
    found = {version: path for path in _candidates() if (version := _version(path)) >= OLDEST}
    if not found:
        raise TestbedError(
            f"Harbor needs Python {OLDEST[0]}.{OLDEST[1]} or later, and there is none "
            "in HARBOR_PYTHON, on PATH or under pyenv",
            hint="install one, or set HARBOR_PYTHON to it; or measure without Harbor: "
            "python -m tests.bench exec --without-harbor",
        )
    return found[min(found)]


def _candidates() -> Iterator[Path]:
    if chosen := os.environ.get("HARBOR_PYTHON"):
        yield Path(chosen)
        return
    yield Path(sys.executable)
    for name in ("python3", *(f"python3.{minor}" for minor in range(OLDEST[1], 20))):
        if path := shutil.which(name):
            yield Path(path)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob("versions/3.*/bin/python3"))


def _version(python: Path) -> tuple[int, int]:
    """Its version; (0, 0) if it does not run, as a shim of pyenv may not."""
    ask = [str(python), "-c", "import sys; print(*sys.version_info[:2])"]
    try:
        told = subprocess.run(ask, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return 0, 0
    major, minor = told.stdout.split() if told.returncode == 0 else ("0", "0")
    return int(major), int(minor)


if __name__ == "__main__":
    with step("Harbor's environment") as tell:
        if "--lock" in sys.argv:
            relock(tell)
        else:
            print(ensure_harbor(tell))
