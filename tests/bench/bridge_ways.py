"""Ways to bring a group to a server: bytes that are ready, and the bridge's sink."""

import asyncio
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from tests.atropos.groups import group
from tests.atropos.peers import Peers
from tests.atropos.server import AtroposServer, running
from tests.atropos.sinks import ready, settings
from tests.ports import free_port, listening
from trainer_bridge.sinks.atropos import AtroposSettings, AtroposSink
from trainer_bridge.sinks.atropos.encoding import encode
from trainer_bridge.training import TrainingGroup

RAW_SERVER = Path(__file__).with_name("bridge_raw_server.py")
GROUP_SIZE, TOKENS, TOP_K, SCORED, TURN_TOKENS = 8, 4096, 50, 1000, 256
RAW, ATROPOS = "a server that only reads", "Atropos"
PLAIN, DISTILLED = "plain", "distilled"


@dataclass(frozen=True)
class Load:
    """A group that is sent again and again.

    Attributes:
        body: what the sink makes of it.
        repeats: by server, how many are sent in one reading.
    """

    name: str
    group: TrainingGroup
    body: bytes
    repeats: dict[str, int]

    @classmethod
    def all(cls) -> "list[Load]":
        """Without and with a teacher's values."""
        loads = []
        for name, scored, repeats in (
            (PLAIN, 0, {RAW: 60, ATROPOS: 20}),
            (DISTILLED, SCORED, {RAW: 12, ATROPOS: 4}),
        ):
            made = group(
                size=GROUP_SIZE,
                tokens=TOKENS,
                turn_tokens=TURN_TOKENS,
                k=TOP_K,
                scored=scored,
                unseen=0,
            )
            loads.append(cls(name, made, encode(made, 0, options("http://none")), repeats))
        return loads


@dataclass(frozen=True)
class Way:
    """One way to send a group after the other: our sink, or a bare socket and bytes of before."""

    title: str
    ours: bool = True
    gzip_level: int = 0


READY = Way("POST of ready bytes, bare socket", ours=False)
OURS = Way("our sink: encode and POST")
COMPRESSED = Way("the same with gzip 1", gzip_level=1)
WAYS = (READY, OURS, COMPRESSED)


def options(url: str, *, gzip_level: int = 0) -> AtroposSettings:
    """The sink's settings."""
    return settings(
        url,
        group_size=GROUP_SIZE,
        max_token_length=2 * TOKENS,
        max_batches_offpolicy=1000,
        gzip_level=gzip_level,
        warn_batch_bytes=1 << 40,
        poll_seconds=2,
    )


@dataclass(frozen=True)
class Server:
    """Where groups are sent to, as those of environment 0; Atropos is emptied for each reading."""

    name: str
    port: int
    atropos: AtroposServer | None = None

    async def seconds(self, way: Way, load: Load) -> float:
        """What one group takes, over all of one reading."""
        count = load.repeats[self.name]
        async with aiohttp.ClientSession() as http:
            if self.atropos is not None:
                await self.atropos.empty()
                peers = Peers(http, self.atropos.url)
                await peers.start_trainer(batch_size=GROUP_SIZE, max_token_len=2 * TOKENS)
                if not way.ours:
                    assert await peers.register_environment(group_size=GROUP_SIZE) == 0
        if not way.ours:
            return await asyncio.to_thread(_post_ready, self.port, load.body, count) / count
        return await _send(f"http://127.0.0.1:{self.port}", way, load.group, count) / count


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[list[Server]]:
    """Both servers, each a process of its own."""
    port = free_port()
    program = await asyncio.create_subprocess_exec(sys.executable, str(RAW_SERVER), str(port))
    try:
        await listening(port)
        async with running(folder / "run-api.log") as real:
            yield [Server(RAW, port), Server(ATROPOS, real.port, real)]
    finally:
        program.kill()
        await program.wait()


def _post_ready(port: int, body: bytes, count: int) -> float:
    head = b"POST /scored_data HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
    head += b"Content-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        started = time.perf_counter()
        for _ in range(count):
            connection.sendall(head)
            connection.sendall(body)
            answer = connection.recv(1 << 16)
            while b'"received"' not in answer:
                more = connection.recv(1 << 16)
                assert more and answer.startswith(b"HTTP/1.1 200 "), answer
                answer += more
        return time.perf_counter() - started


async def _send(url: str, way: Way, whole: TrainingGroup, count: int) -> float:
    sink = AtroposSink(options(url, gzip_level=way.gzip_level))
    await sink.open()
    try:
        await ready(sink)
        started = time.perf_counter()
        for _ in range(count):
            await sink.send(whole)
        return time.perf_counter() - started
    finally:
        await sink.close()
