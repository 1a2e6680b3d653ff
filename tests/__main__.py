"""`make test`: every check and every test, on a real cluster with a real vLLM.

The testbed comes up in the background while the checks that need no cluster run. A skipped test is
a failure: a run in which Kubernetes or vLLM did not take part must be red.
"""

import os
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from rich.table import Table

from tests.testbed import choice, stack
from tests.testbed.console import console
from tests.testbed.errors import TestbedError

ROOT = Path(__file__).parents[1]
PYTEST = [sys.executable, "-m", "pytest", "-q", "--durations=8", "-p", "tests.no_skips"]
GO = ["go", "test", "./..."]

LOCAL: tuple[tuple[str, list[str], str], ...] = (
    ("lint", ["make", "-s", "lint"], "."),
    ("types", ["make", "-s", "type"], "."),
    ("crds-check", ["make", "-s", "crds-check"], "."),
    ("unit tests", [*PYTEST, "-n", "2", "tests/unit"], "."),
    ("runner unit tests", GO, "images/runner"),
    ("runner tests", [*PYTEST, "tests/runner"], "."),
    ("model tests", [*PYTEST, "tests/model"], "."),
    ("Harbor's reading of tasks", [*PYTEST, "tests/harbor"], "."),
)
CLUSTER: tuple[tuple[str, list[str], str], ...] = (
    (
        "cluster tests",
        [*PYTEST, "-m", "not alone", "-n", "3", "--dist", "loadfile", "tests/cluster"],
        ".",
    ),
    ("cluster tests, one by one", [*PYTEST, "-m", "alone", "tests/cluster"], "."),
)


class Suites:
    """Runs suites one after the other and keeps how each ended."""

    def __init__(self) -> None:
        self._table = Table("suite", "result", "seconds")
        self.failed = False

    def run(self, name: str, command: list[str], folder: str, env: dict[str, str]) -> None:
        """Run one suite with its output shown."""
        console.rule(name)
        started = time.monotonic()
        code = subprocess.run(command, cwd=ROOT / folder, env=env, check=False).returncode
        self.note(name, code == 0, time.monotonic() - started)

    def note(self, name: str, passed: bool, seconds: float) -> None:
        """Keep a result."""
        self.failed |= not passed
        self._table.add_row(name, "[green]ok[/]" if passed else "[red]FAILED[/]", f"{seconds:.0f}")

    def show(self) -> None:
        """Print all results."""
        console.print(self._table)


def main() -> int:
    """Run everything; 0 only if all of it ran and passed."""
    suites, started = Suites(), time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        coming_up = pool.submit(stack.up, choice.current())
        for name, command, folder in LOCAL:
            suites.run(name, command, folder, dict(os.environ))
        running = _wait(coming_up, suites, started)
    if running is not None:
        for name, command, folder in CLUSTER:
            suites.run(name, command, folder, running.environment)
    suites.show()
    return 1 if suites.failed else 0


def _wait(coming_up: "Future[stack.Stack]", suites: Suites, started: float) -> stack.Stack | None:
    try:
        running = coming_up.result()
    except TestbedError as error:
        print(error.render(), file=sys.stderr)
        suites.note("testbed", False, time.monotonic() - started)
        return None
    suites.note("testbed", True, time.monotonic() - started)
    return running


if __name__ == "__main__":
    sys.exit(main())
