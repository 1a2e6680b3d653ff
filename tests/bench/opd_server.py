"""vLLM on this machine, with either of its model runners, and what its counters say.

The V2 runner needs Triton, which has no backend for CPUs: it runs in Triton's interpreter with the
one in `triton_cpu`. That is slow, and exact.
"""

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import aiohttp

from tests.bench.harbor import HOME
from tests.ports import free_port
from tests.testbed.environments import ensure_environment
from tests.testbed.errors import TestbedError
from tests.testbed.paths import CACHE
from tests.testbed.policy import ensure_policy
from tests.testbed.vllm import SERVER_ENVIRONMENT, ensure_vllm_environment, server_command

TRITON_LOCK = Path(__file__).with_name("triton.lock")
TRITON_BACKEND = Path(__file__).with_name("triton_cpu")
START_SECONDS = 300.0
STOP_SECONDS = 30.0
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""On a busy machine several would wait for each other at every step."""
SETTLE_SECONDS = 10.0
_SAMPLE = re.compile(r"^vllm:(\w+)\{(.*)\} (\S+)$", re.MULTILINE)


class Runner(StrEnum):
    """vLLM's model runner."""

    V1 = "V1"
    V2 = "V2"


@dataclass(frozen=True)
class Counters:
    """Of a server since it started: tokens of prompts that it computed, and that it read from its
    prefix cache; requests that it finished.
    """

    computed: int
    cached: int
    requests: int

    @classmethod
    def parse(cls, text: str) -> "Counters":
        """From the answer of /metrics."""
        found = {"local_compute": 0.0, "local_cache_hit": 0.0, "requests": 0.0}
        for name, labels, value in _SAMPLE.findall(text):
            if name == "request_success_total":
                found["requests"] += float(value)
            elif name == "prompt_tokens_by_source_total":
                source = re.search(r'source="(\w+)"', labels)
                if source and source[1] in found:
                    found[source[1]] += float(value)
        return cls(*map(int, found.values()))

    def __sub__(self, earlier: "Counters") -> "Counters":
        return Counters(
            self.computed - earlier.computed,
            self.cached - earlier.cached,
            self.requests - earlier.requests,
        )


class Server:
    """A running server. `url` has no /v1."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.url = url
        self._http = http

    async def counters(self) -> Counters:
        """What they say now."""
        async with self._http.get(f"{self.url}/metrics") as response:
            response.raise_for_status()
            return Counters.parse(await response.text())

    async def since(self, before: Counters, *, requests: int) -> Counters:
        """What was counted after `before`, by exactly so many requests.

        Raises TestbedError when others asked the server too: then the counters say nothing.
        """
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:  # a request is counted a moment after its answer
            seen = await self.counters() - before
            if seen.requests == requests:
                return seen
            if time.monotonic() > deadline:
                raise TestbedError(f"the server counts {seen.requests} requests, not {requests}")
            await asyncio.sleep(0.1)

    async def empty_cache(self) -> None:
        """Forget all prefixes. Raises TestbedError when the server goes on using some."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            async with self._http.post(f"{self.url}/reset_prefix_cache") as response:
                response.raise_for_status()
                if (await response.json())["success"]:
                    return
            await asyncio.sleep(0.1)
        raise TestbedError("the server does not empty its prefix cache")


def ensure_triton(say: Callable[[str], None]) -> list[Path]:
    """The folders that make Triton importable, and run on a CPU."""
    python = ensure_environment(
        HOME / "triton", say, requirements=TRITON_LOCK.read_text(), what="Triton, 0.2 GB"
    )
    lib = python.parents[1] / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    return [TRITON_BACKEND, lib]


@asynccontextmanager
async def serving(runner: Runner, say: Callable[[str], None]) -> AsyncIterator[Server]:
    """The testbed's policy on 127.0.0.1 with the testbed's options; it ends with the block.

    Raises:
        TestbedError: it does not start; its log is named.
    """
    python = await asyncio.to_thread(ensure_vllm_environment, CACHE, say)
    model = await asyncio.to_thread(ensure_policy, CACHE, say)
    own = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
    if runner is Runner.V2:
        folders = await asyncio.to_thread(ensure_triton, say)
        own = {
            "VLLM_USE_V2_MODEL_RUNNER": "1",
            "TRITON_INTERPRET": "1",
            "TRITON_DEFAULT_BACKEND": "cpu",
            "PYTHONPATH": os.pathsep.join(map(str, folders)),
        }
    port = free_port()
    url, log = f"http://127.0.0.1:{port}", HOME / f"vllm-{runner.lower()}.log"
    say("starting vLLM")
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *server_command(python, model, port=port),
            "--host=127.0.0.1",
            env={**os.environ, **SERVER_ENVIRONMENT, **ONE_THREAD, **own},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        async with aiohttp.ClientSession() as http:
            await _healthy(http, url, process, log)
            yield Server(http, url)
    finally:
        await _end(process)


async def _healthy(
    http: aiohttp.ClientSession, url: str, process: asyncio.subprocess.Process, log: Path
) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.returncode is None:
        with suppress(aiohttp.ClientConnectionError):
            async with http.get(f"{url}/health") as response:
                if response.status == 200:
                    return
        await asyncio.sleep(0.5)
    raise TestbedError("vLLM did not start", log=log)


async def _end(process: asyncio.subprocess.Process) -> None:
    """The server and the processes that it started."""
    if process.returncode is None:
        process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
