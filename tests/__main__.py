"""`make test`: every check and every test, on a real cluster with a real vLLM.

The testbed comes up in the background while the checks that need no cluster run, in two lanes. A
skipped test is a failure: a run in which Kubernetes or vLLM did not take part must be red.
"""

import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from rich.table import Table

from tests.testbed import choice, stack
from tests.testbed.console import console
from tests.testbed.errors import TestbedError

ROOT = Path(__file__).parents[1]
PYTEST = [sys.executable, "-m", "pytest", "-q", "--durations=8", "-p", "tests.no_skips"]
BUILDING = "--timeout=2400"
"""For tests that wait for a build or a download, on a cold machine beside those of the testbed."""


class Suite(NamedTuple):
    """A command and the folder that it runs in."""

    name: str
    command: list[str]
    folder: str = "."


LANES = (
    (
        Suite("lint", ["make", "-s", "lint"]),
        Suite("types", ["make", "-s", "type"]),
        Suite("crds-check", ["make", "-s", "crds-check"]),
        Suite("unit tests", [*PYTEST, "-n", "2", "tests/unit"]),
        Suite("runner unit tests", ["go", "test", "./..."], "images/runner"),
        Suite("Atropos", [*PYTEST, "tests/atropos"]),
        Suite("example trainer", [*PYTEST, BUILDING, "tests/trainer"]),
        Suite("Harbor's reading of tasks", [*PYTEST, "tests/harbor"]),
        Suite("judgement of measurements", [*PYTEST, "tests/bench"]),
        Suite("web view in Chromium", [*PYTEST, BUILDING, "tests/browser"]),
    ),
    (
        Suite("runner tests", [*PYTEST, "-n", "2", "tests/runner"]),
        Suite("model tests", [*PYTEST, "tests/model"]),
        Suite("object store tests", [*PYTEST, BUILDING, "tests/stores"]),
        Suite("bridge tests", [*PYTEST, "tests/bridge"]),
        Suite("kustomize-check", ["make", "-s", "kustomize-check"]),
        Suite("chart", [*PYTEST, BUILDING, "tests/chart"]),
        Suite("vLLM's rendering and parsers", [*PYTEST, BUILDING, "tests/vllm"]),
    ),
)
"""What needs no cluster, in two lanes of about the same length."""

SIDE_BY_SIDE = ["-m", "not alone", "-n", "3", "--dist", "loadgroup", "--no-loadscope-reorder"]
CLUSTER = (
    Suite("cluster tests", [*PYTEST, *SIDE_BY_SIDE, "tests/cluster"]),
    Suite("cluster tests, one by one", [*PYTEST, "-m", "alone", "tests/cluster"]),
)


class Suites:
    """Runs suites and keeps how each ended. May be used by several threads."""

    def __init__(self) -> None:
        self._table = Table("suite", "result", "seconds")
        self._shown = Lock()
        self.failed = False

    def run(self, suite: Suite, env: dict[str, str]) -> None:
        """Run one suite with its output shown."""
        console.rule(suite.name)
        started = time.monotonic()
        ended = subprocess.run(suite.command, cwd=ROOT / suite.folder, env=env, check=False)
        self.note(suite.name, ended.returncode == 0, time.monotonic() - started)

    def run_lane(self, lane: tuple[Suite, ...]) -> None:
        """Run suites one after the other; the output of each is shown at its end."""
        for suite in lane:
            started = time.monotonic()
            ended = subprocess.run(
                suite.command,
                cwd=ROOT / suite.folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            with self._shown:
                console.rule(suite.name)
                print(ended.stdout.decode(errors="replace"), end="", flush=True)
                self.note(suite.name, ended.returncode == 0, time.monotonic() - started)

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
    with ThreadPoolExecutor(1 + len(LANES)) as pool:
        coming_up = pool.submit(stack.up, choice.current())
        for lane in [pool.submit(suites.run_lane, lane) for lane in LANES]:
            lane.result()
        running = _wait(coming_up, suites, started)
    if running is not None:
        for suite in CLUSTER:
            suites.run(suite, running.environment)
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
