"""A Python environment with `harbor`'s own models: made once in the cache folder, 8 packages.

    python -m tests.harbor.environment       make the environment, print its Python

Harbor as a whole asks for Python 3.12 and 130 packages. What reads a task.toml in it imports few of
them and runs, as it is shipped, on 3.11 too, which is the Python of `make test`. So it is installed
without what it depends on, and without asking for its Python; the versions and hashes are those of
tests/bench/harbor.lock.
"""

import re
from collections.abc import Callable
from pathlib import Path

from tests.bench.harbor import LOCK
from tests.testbed.console import step
from tests.testbed.environments import ensure_environment
from tests.testbed.paths import CACHE

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


def ensure_models(say: Callable[[str], None]) -> Path:
    """The environment's Python; at once when it is there, else in seconds.

    Raises:
        TestbedError: packages cannot be had.
    """
    return ensure_environment(
        CACHE / "harbor-models" / "venv",
        say,
        requirements=requirements(LOCK.read_text()),
        what=f"Harbor's models, {len(PACKAGES)} packages",
        any_python=True,
    )


if __name__ == "__main__":
    with step("Harbor's models") as tell:
        print(ensure_models(tell))
