"""atheris's Python environment: made once in the cache folder, with what two lock files list.

    python -m tests.fuzz.environment            make the environment, print its Python
    python -m tests.fuzz.environment --lock     write atheris.lock anew

atheris has wheels only for Linux on x86-64 and for few versions of Python, so it is no dependency
of the repository's own environment.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from tests.testbed.console import step
from tests.testbed.environments import ensure_environment, ensure_uv
from tests.testbed.paths import CACHE
from tests.testbed.shell import run
from tests.testbed.stack import ROOT

HOME = CACHE / "fuzz"
REQUIREMENTS = Path(__file__).with_name("atheris.in")
LOCK = REQUIREMENTS.with_suffix(".lock")
LOCKS = (LOCK, ROOT / "requirements" / "operator.lock")


def ensure_atheris(say: Callable[[str], None]) -> Path:
    """The Python of an environment with atheris and what the operator needs.

    At once when it is there, else in about half a minute.

    Raises:
        TestbedError: packages cannot be had for this machine.
    """
    return ensure_environment(
        HOME / "venv",
        say,
        requirements="".join(lock.read_text() for lock in LOCKS),
        what="atheris and what the operator needs",
        hint="atheris needs Linux on x86-64 and Python 3.11 to 3.13",
    )


def relock(say: Callable[[str], None]) -> None:
    """Resolve atheris.in anew and write atheris.lock."""
    compile_ = [str(ensure_uv(CACHE, say)), "pip", "compile", "--upgrade", "--quiet"]
    compile_ += ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-header"]
    compile_ += ["--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
    run([*compile_, "--output-file", str(LOCK), str(REQUIREMENTS)])


if __name__ == "__main__":
    with step("fuzzing environment") as tell:
        if "--lock" in sys.argv:
            relock(tell)
        else:
            print(ensure_atheris(tell))
