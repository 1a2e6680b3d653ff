"""The four paths by which a command reaches the pod, each behind one `measure`."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Protocol

import aiohttp

from episode_operator.kube.connection import KubernetesConnection
from episode_operator.sandbox.channel import ChannelClosed, OpenChannel
from episode_operator.sandbox.session import RUNNER_PATH, Session
from episode_operator.sandbox.websocket import open_exec
from tests.bench.harbor import HOME
from tests.bench.loop import Load, Reading
from tests.bench.pod import Pod
from tests.testbed.errors import TestbedError
from tests.testbed.shell import run
from tests.testbed.stack import ROOT

FLOOR_SOURCE = Path(__file__).with_name("floor")
FLOOR_IN_POD = "/tmp/floor"
ANSWER_BYTES = 16 << 20
GRACE_SECONDS = 180.0

FLOOR, SESSION, STREAM, HARBOR = "floor", "session", "stream", "harbor"
PEERS = (STREAM, HARBOR)
TITLES = {
    FLOOR: "fork+exec in the pod",
    SESSION: "our session",
    STREAM: "kubernetes stream",
    HARBOR: "Harbor",
}


class CommandPath(Protocol):
    """A way to run commands in the pod."""

    async def measure(self, load: Load) -> Reading:
        """Runs the load and tells what was seen. Raises TestbedError if it cannot."""


class Floor:
    """A static program in the pod that starts the command itself. Nothing crosses the network."""

    def __init__(self, run_in_pod: Callable[[tuple[str, ...]], OpenChannel]) -> None:
        self._run_in_pod = run_in_pod

    async def measure(self, load: Load) -> Reading:
        """Runs the load in the pod, started by one plain exec."""
        numbers = (load.callers, load.warm_up_seconds, load.seconds)
        channel = await self._run_in_pod((FLOOR_IN_POD, *map(str, numbers), *load.argv))()
        answer = b""
        try:
            async with asyncio.timeout(load.warm_up_seconds + load.seconds + GRACE_SECONDS):
                while True:
                    answer += await channel.receive()
        except ChannelClosed as end:
            if not answer.endswith(b"\n"):
                raise TestbedError(f"the floor failed: {end}") from end
        finally:
            await channel.close()
        return Reading(**json.loads(answer))


class Worker:
    """A client in a process of its own, so that its CPU time is the path's alone."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self._name = name
        self._process = process

    async def measure(self, load: Load) -> Reading:
        """Lets the worker run the load."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(load)).encode() + b"\n")
        return Reading(**json.loads(await self.answer(load.warm_up_seconds + load.seconds)))

    async def answer(self, seconds: float) -> bytes:
        """The next line that it says, within `seconds` and some grace."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(seconds + GRACE_SECONDS):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise TestbedError(f"{self._name}: no answer in {GRACE_SECONDS:.0f} s") from None
        if not line:
            raise TestbedError(f"{self._name}: the worker ended; see its messages above")
        return line


@asynccontextmanager
async def _worker(name: str, python: Path, pod: Pod) -> AsyncIterator[Worker]:
    where = (pod.namespace, pod.name, pod.container, pod.uid)
    process = await asyncio.create_subprocess_exec(
        *(str(python), "-m", f"tests.bench.worker_{name}", *where),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=ANSWER_BYTES,
    )
    try:
        worker = Worker(name, process)
        await worker.answer(0)
        yield worker
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def _floor(connection: KubernetesConnection, pod: Pod) -> AsyncIterator[Floor]:
    binary = HOME / "floor"
    static = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
    build = ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(binary), "."]
    await asyncio.to_thread(run, build, cwd=FLOOR_SOURCE, env=static)
    async with aiohttp.ClientSession() as http:
        in_container = partial(
            open_exec,
            connection,
            http,
            namespace=pod.namespace,
            pod=pod.name,
            container=pod.container,
        )
        attach = in_container(command=(RUNNER_PATH, "attach"))
        # A runner has one client at a time, and soon that is the measured session.
        async with Session(attach, pod_uid=pod.uid) as session:
            await session.write_file(FLOOR_IN_POD, binary.read_bytes(), mode=0o755)
        yield Floor(lambda argv: in_container(command=argv))


@asynccontextmanager
async def open_paths(
    connection: KubernetesConnection, pod: Pod, harbor: Path | None
) -> AsyncIterator[dict[str, CommandPath]]:
    """All paths to the pod, by name; without Harbor where its Python is None."""
    pythons = {SESSION: Path(sys.executable), STREAM: Path(sys.executable), HARBOR: harbor}
    async with AsyncExitStack() as stack:
        paths: dict[str, CommandPath] = {
            FLOOR: await stack.enter_async_context(_floor(connection, pod))
        }
        for name, python in pythons.items():
            if python is not None:
                paths[name] = await stack.enter_async_context(_worker(name, python, pod))
        yield paths
