"""`exec`: what a command in a pod costs by each path, all in one pod and one run."""

import shlex
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from episode_operator.kube.client import KubernetesClient
from episode_operator.kube.connection import load
from tests.bench.loop import Load, Reading
from tests.bench.machine import Watch
from tests.bench.paths import FLOOR, CommandPath, open_paths
from tests.bench.pod import running_pod
from tests.bench.readings import Cell, digits, percentile
from tests.bench.report import Report
from tests.bench.target import Target
from tests.testbed.errors import TestbedError

COMMANDS = (("true",), ("python3", "-c", "pass"))
CALLERS = (1, 8, 32)


@dataclass(frozen=True)
class Settings:
    """How long to measure, and in what pod."""

    repeats: int
    warm_up_seconds: float
    seconds: float
    seccomp: bool


Key = tuple[str, str, int]
Say = Callable[[str], None]


async def measure(target: Target, harbor: Path | None, settings: Settings, say: Say) -> Report:
    """Runs all of it in a new pod, which is gone afterwards.

    Raises:
        TestbedError: the pod did not start, or a path could run no command.
    """
    connection = await load()
    watch = Watch()
    async with (
        KubernetesClient(connection) as client,
        running_pod(client, target, seccomp=settings.seccomp) as pod,
    ):
        say(f"pod {pod.namespace}/{pod.name} runs; starting the clients")
        async with open_paths(connection, pod, harbor) as paths:
            await _check(paths)
            readings = await _repeat(paths, settings, say)
    cells = [Cell.of(*key, seen) for key, seen in readings.items()]
    return Report(asdict(settings), watch.end(), cells)


async def _check(paths: dict[str, CommandPath]) -> None:
    """Sees that commands run at all: one that fails must be seen to fail by every path."""
    for name, path in paths.items():
        if name != FLOOR:
            reading = await path.measure(Load(("false",), 1, 0.0, 0.3))
            if reading.latencies_ms or not reading.failures:
                raise TestbedError(f"{name} reports success of a command that fails")


async def _repeat(
    paths: dict[str, CommandPath], settings: Settings, say: Say
) -> dict[Key, list[Reading]]:
    """Measures repeat by repeat; in each, another path comes first, so that none is favoured."""
    readings: dict[Key, list[Reading]] = defaultdict(list)
    total = settings.repeats * len(COMMANDS) * len(CALLERS) * len(paths)
    names = list(paths)
    done = 0
    for repeat in range(settings.repeats):
        turn = repeat % len(names)
        for argv in COMMANDS:
            for callers in CALLERS:
                for name in names[turn:] + names[:turn]:
                    asked = Load(argv, callers, settings.warm_up_seconds, settings.seconds)
                    reading = await paths[name].measure(asked)
                    key = (name, shlex.join(argv), callers)
                    done += 1
                    say(f"{done}/{total} repeat {repeat + 1}: {_line(key, reading)}")
                    readings[key].append(reading)
    return readings


def _line(key: Key, reading: Reading) -> str:
    name, command, callers = key
    where = f"{name}, {command}, {callers} callers"
    if not reading.latencies_ms:
        raise TestbedError(f"{where}: no command succeeded: {reading.failure or 'too slow'}")
    rate = len(reading.latencies_ms) / reading.seconds
    failed = f", {reading.failures} FAILED" if reading.failures else ""
    p50 = digits(percentile(reading.latencies_ms, 50))
    return f"{where}: p50 {p50} ms, {digits(rate)}/s{failed}"
