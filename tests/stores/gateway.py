"""A real S3 server on the loopback, and a connection to it that can be cut."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.ports import free_port
from tests.testbed import gobuild

BUCKET = "results"
REGION = "us-east-1"
ACCESS_KEY, SECRET_KEY = "operator", "a-secret-of-the-tests"
_START_SECONDS = 30.0


@dataclass(frozen=True)
class Gateway:
    """A server with one bucket.

    Attributes:
        endpoint: its URL.
        folder: where it keeps the bucket's objects, each as a file.
    """

    endpoint: str
    folder: Path

    def environment(self, **changes: str) -> dict[str, str]:
        """The variables that lead to it."""
        return {**environment(self.endpoint), **changes}

    def objects(self) -> list[Path]:
        """The files of all objects."""
        return sorted(path for path in self.folder.rglob("*") if path.is_file())


def environment(endpoint: str) -> dict[str, str]:
    """The variables that lead to a server of these tests."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": REGION,
    }


@asynccontextmanager
async def running(folder: Path, *, port: int | None = None) -> AsyncIterator[Gateway]:
    """The server, keeping its data in the folder; it is built at the first use."""
    program = await asyncio.to_thread(gobuild.ensure, gobuild.VERSITYGW, print)
    bucket, metadata = folder / "data" / BUCKET, folder / "metadata"
    bucket.mkdir(parents=True)
    metadata.mkdir()
    port = port or free_port()
    with (folder / "versitygw.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            str(program / "versitygw"),
            *("--port", f"127.0.0.1:{port}", "--region", REGION),
            *("posix", "--sidecar", str(metadata), str(bucket.parent)),
            env={
                **os.environ,
                "ROOT_ACCESS_KEY_ID": ACCESS_KEY,
                "ROOT_SECRET_ACCESS_KEY": SECRET_KEY,
            },
            stdout=log,
            stderr=log,
        )
    try:
        async with asyncio.timeout(_START_SECONDS):
            while not await _listens(port):
                assert process.returncode is None, (folder / "versitygw.log").read_text()
                await asyncio.sleep(0.05)
        yield Gateway(f"http://127.0.0.1:{port}", bucket)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


@contextmanager
def variables(values: dict[str, str]) -> Iterator[None]:
    """The environment with these values."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@dataclass
class Cuts:
    """Connections to a server that are cut off.

    Attributes:
        after: bytes that pass, counted in both directions, before a connection is cut.
        left: how many connections still are.
        made: how many were.
    """

    after: int
    left: int
    made: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


@asynccontextmanager
async def cutting(gateway: Gateway, *, after: int, connections: int) -> AsyncIterator[Cuts]:
    """A way to the server that cuts the first connections; its endpoint is in the environment."""
    cuts = Cuts(after, connections)
    port = int(gateway.endpoint.rpartition(":")[2])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        budget = cuts.after if cuts.left else None
        if budget is not None:
            cuts.left -= 1
        passed = 0

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            nonlocal passed
            while data := await source.read(64 << 10):
                passed += len(data)
                if budget is not None and passed > budget:
                    cuts.made += 1
                    return
                sink.write(data)
                await sink.drain()

        pumps = [
            asyncio.create_task(pump(reader, server_writer)),
            asyncio.create_task(pump(server_reader, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in pumps:
                one.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for each in (writer, server_writer):
                each.transport.abort()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listener:
        host, own_port = listener.sockets[0].getsockname()[:2]
        with variables(gateway.environment(AWS_ENDPOINT_URL=f"http://{host}:{own_port}")):
            yield cuts
