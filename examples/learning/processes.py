"""The run's parts as processes of this machine, each with a log in the run's folder."""

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.testbed.errors import TestbedError

_STOP_SECONDS = 180.0


class PartError(TestbedError):
    """A part of the run has ended that must not."""


@dataclass
class Part:
    """One process."""

    name: str
    log: Path
    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        """Its id."""
        return self.process.pid

    async def ended(self) -> None:
        """Wait until it has ended well.

        Raises:
            PartError: it ended with an error.
        """
        if status := await self.process.wait():
            raise PartError(f"{self.name} ended with status {status}", log=self.log)

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL where that does not help."""
        if self.process.returncode is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.process.wait(), _STOP_SECONDS)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


@dataclass
class Parts:
    """Starts processes, and stops them in the opposite order at the end of the block."""

    folder: Path
    env: Mapping[str, str]
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def start(self, name: str, *command: str, **environment: str) -> Part:
        """Start a command, with more environment."""
        log = self.folder / f"{name}.log"
        with log.open("ab") as file:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, **self.env, "PYTHONUNBUFFERED": "1", **environment},
                start_new_session=True,  # Ctrl-C is for this program, which stops them in order
            )
        part = Part(name, log, process)
        self._stack.push_async_callback(part.stop)
        return part
