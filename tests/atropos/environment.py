"""Atropos's Python environment: made once in the cache folder, with what atropos.lock lists.

    python -m tests.atropos.environment            make the environment, print its Python
    python -m tests.atropos.environment --lock     write requirements/atropos.lock anew

The package asks for transformers, datasets, wandb and more; its server imports none of them. So it
is installed without what it depends on, beside what the server needs (requirements/atropos.in).
"""

import sys
from collections.abc import Callable
from pathlib import Path

from tests.testbed.console import step
from tests.testbed.environments import ensure_environment, ensure_uv
from tests.testbed.paths import CACHE
from tests.testbed.shell import run
from tests.testbed.stack import ROOT

PACKAGE = "atroposlib==0.4.0"
REQUIREMENTS = ROOT / "requirements" / "atropos.in"
LOCK = REQUIREMENTS.with_suffix(".lock")


def ensure_atropos(say: Callable[[str], None]) -> Path:
    """The environment's Python; at once when it is there, else in seconds.

    Raises:
        TestbedError: packages cannot be had.
    """
    return ensure_environment(
        CACHE / "atropos" / "venv",
        say,
        requirements=LOCK.read_text(),
        what="Atropos and what its server needs",
    )


def relock(say: Callable[[str], None]) -> None:
    """Resolve the package alone, and anew what its server needs; write atropos.lock."""
    compile_ = [str(ensure_uv(CACHE, say)), "pip", "compile", "--upgrade", "--quiet"]
    compile_ += ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-header"]
    compile_ += ["--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
    alone = run([*compile_, "--no-deps", "-"], stdin=PACKAGE)
    LOCK.write_text(alone + run([*compile_, str(REQUIREMENTS)]))


if __name__ == "__main__":
    with step("Atropos") as tell:
        if "--lock" in sys.argv:
            relock(tell)
        else:
            print(ensure_atropos(tell))
