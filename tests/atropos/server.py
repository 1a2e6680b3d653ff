"""The real server, `run-api`, on the loopback; it can be killed, stopped and started again."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from tests.atropos.environment import ensure_atropos
from tests.ports import free_port, listening


@dataclass
class AtroposServer:
    """One server; a new start begins with nothing, as its state is in memory."""

    log: Path
    port: int = field(default_factory=free_port)
    _process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Base URL."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start it and wait until it listens."""
        python = await asyncio.to_thread(ensure_atropos, print)
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                str(python.with_name("run-api")),
                *("--host", "127.0.0.1", "--port", str(self.port)),
                stdout=log,
                stderr=log,
            )
        await listening(self.port)

    async def empty(self) -> None:
        """As if just started, which takes seconds."""
        if self._process is None or self._process.returncode is not None:
            await self.start()
        async with aiohttp.request("GET", f"{self.url}/reset_data") as response:
            assert response.status in (200, 500)  # 500: there is nothing yet that it could reset

    async def kill(self) -> None:
        """As a crash."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    @asynccontextmanager
    async def stopped(self) -> AsyncIterator[None]:
        """It accepts connections and bytes and does nothing, as while it hands out a batch."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


@asynccontextmanager
async def running(log: Path) -> AsyncIterator[AtroposServer]:
    """A server, as it is after its start."""
    server = AtroposServer(log)
    try:
        await server.empty()
        yield server
    finally:
        await server.kill()
