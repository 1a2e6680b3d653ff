"""One run of one target: libFuzzer in a process of its own, and what it says of itself."""

import os
import re
import subprocess
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.environment import HOME
from tests.fuzz.targets import SEEDS, TARGETS
from tests.testbed.errors import TestbedError
from tests.testbed.stack import ROOT

FINDINGS = ROOT / "reports" / "fuzz"
_SLOW_SECONDS = 20
_MEMORY_MIB = 4096
_KEPT_LINES = 60

_STATUS = re.compile(r"#(\d+)\s+\S+\s+cov: (\d+) ft: (\d+) corp: (\d+)")
_DONE = re.compile(r"(?:Done|stat::number_of_executed_units:) +(\d+)")
_WRITTEN = re.compile(r"Test unit written to (\S*-(?:crash|timeout|oom)-\w+)")


@dataclass
class Run:
    """How a run went.

    Attributes:
        executions: inputs that were tried.
        coverage: points of the code, the operator's and the checks', that were reached.
        corpus: inputs known to reach something that no other does.
        finding: the input that showed a fault.
        output: the last lines that the worker printed.
    """

    target: str
    seconds: int
    executions: int = 0
    coverage: int = 0
    corpus: int = 0
    finding: Path | None = None
    output: str = ""

    def read(self, lines: Iterable[str], say: Callable[[str], None]) -> None:
        """Take in what the worker prints, to its end."""
        kept: deque[str] = deque(maxlen=_KEPT_LINES)
        for line in lines:
            kept.append(line)
            if status := _STATUS.match(line):
                self.executions, self.coverage, _, self.corpus = map(int, status.groups())
                say(f"{self.executions:,} executions, {self.coverage} points reached")
            elif done := _DONE.match(line):
                self.executions = int(done[1])
            elif written := _WRITTEN.search(line):
                self.finding = Path(written[1])
        self.output = "".join(kept)


def fuzz(python: Path, name: str, seconds: int, say: Callable[[str], None]) -> Run:
    """Try inputs until the time is over or one shows a fault, which is then in FINDINGS.

    What earlier runs learned is in the cache folder, and used again.

    Raises:
        TestbedError: the worker itself failed.
    """
    corpus = HOME / "corpus" / name
    for folder in (corpus, FINDINGS):
        folder.mkdir(parents=True, exist_ok=True)
    command = [str(python), "-m", "tests.fuzz.worker", name]
    command += [f"-max_total_time={seconds}", f"-max_len={TARGETS[name].most_bytes}"]
    command += [f"-timeout={_SLOW_SECONDS}", f"-rss_limit_mb={_MEMORY_MIB}"]
    command += [f"-artifact_prefix={FINDINGS / name}-", "-print_final_stats=1"]
    command += [str(corpus), str(SEEDS / name)]
    path = os.pathsep.join(map(str, (ROOT, ROOT / "operator")))
    run = Run(name, seconds)
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            run.read(process.stdout, say)
        except BaseException:
            process.kill()
            raise
    if run.finding is None and (process.returncode or not run.executions):
        raise TestbedError(f"{name}: the worker exited {process.returncode}:\n{run.output}")
    if run.finding is not None:
        run.finding.with_suffix(".txt").write_text(run.output)
    return run
