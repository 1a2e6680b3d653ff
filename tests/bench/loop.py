"""The closed loop that measures, and the JSON lines by which a worker process is asked for it.

Standard library only: workers with other dependencies than ours (Harbor's) run it too.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass

FEWEST = 20
"""Commands that a reading shall have seen."""
LONGEST_SECONDS = 60.0

Run = Callable[[int], Awaitable[str | None]]
"""Runs the command once, as the caller of that number; returns what went wrong, or None."""


@dataclass(frozen=True)
class Load:
    """What to do: `callers` run `argv` again and again, `seconds` of it measured."""

    argv: tuple[str, ...]
    callers: int
    warm_up_seconds: float
    seconds: float


@dataclass(frozen=True)
class Reading:
    """What was seen of the commands that ended in the measured window.

    Attributes:
        latencies_ms: of the commands that succeeded, as their caller saw them.
        cpu_seconds: user and system time of this process in the window.
        failures: how many commands failed; `failure` is one of the reasons.
    """

    latencies_ms: list[float]
    seconds: float
    cpu_seconds: float
    failures: int
    failure: str


async def closed_loop(run: Run, load: Load) -> Reading:
    """Keeps every caller busy, and measures from the end of the warm-up for `seconds` or longer."""
    latencies: list[float] = []
    failures: list[str] = []
    enough = asyncio.Event()
    over = False

    async def caller(number: int) -> None:
        while not over:
            begin = time.perf_counter()
            failure = await run(number)
            if failure is None:
                latencies.append((time.perf_counter() - begin) * 1e3)
                if len(latencies) == FEWEST:
                    enough.set()
            else:
                failures.append(failure)

    callers = [asyncio.create_task(caller(number)) for number in range(load.callers)]
    await asyncio.sleep(load.warm_up_seconds)
    latencies.clear()
    enough.clear()
    begin, cpu = time.perf_counter(), time.process_time()
    await asyncio.sleep(load.seconds)
    with suppress(TimeoutError):
        # A slow path gets more time, so that its percentiles mean something.
        await asyncio.wait_for(enough.wait(), LONGEST_SECONDS)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    counted = latencies.copy()
    over = True
    await asyncio.gather(*callers)
    return Reading(counted, seconds, cpu, len(failures), failures[0] if failures else "")


async def serve(runner_for: Callable[[tuple[str, ...]], Run]) -> None:
    """Answers each Load on standard input with a Reading on standard output, to its end.

    What anything else prints to standard output goes to standard error.

    Args:
        runner_for: gives the Run of a command.
    """
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        print(json.dumps("ready"), file=answers, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            fields = json.loads(line)
            load = Load(**{**fields, "argv": tuple(fields["argv"])})
            reading = await closed_loop(runner_for(load.argv), load)
            print(json.dumps(asdict(reading)), file=answers, flush=True)
