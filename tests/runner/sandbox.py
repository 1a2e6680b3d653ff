"""The real runner as PID 1 of a process namespace on this machine, reached over pipes."""

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from episode_operator.sandbox.channel import ChannelClosed
from episode_operator.sandbox.session import Session


class PipeChannel:
    """stdin and stdout of a local `runner attach`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed(str(error)) from error

    async def receive(self) -> bytes:
        assert self._process.stdout is not None and self._process.stderr is not None
        data = await self._process.stdout.read(64 << 10)
        if not data:
            stderr = await self._process.stderr.read()
            raise ChannelClosed(f"end of stream: {stderr.decode(errors='replace').strip()}")
        return data

    async def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.returncode is None:
            # nsenter would leave `attach` to the machine's PID 1, and the namespace does not end
            # before that has reaped it, which may take seconds.
            attach = await asyncio.to_thread(_children, self._process.pid)
            with suppress(ProcessLookupError):
                os.kill(attach[0] if attach else self._process.pid, signal.SIGKILL)
        # It has not ended for asyncio before all that it wrote has been read.
        await self._process.communicate()


@dataclass
class LocalSandbox:
    """One serving runner."""

    runner: Path
    pid: int
    launcher: asyncio.subprocess.Process
    workdir: Path
    channels: list[PipeChannel] = field(default_factory=list)

    async def open_channel(self) -> PipeChannel:
        """A channel to a new `runner attach`, injected into the namespace as an exec is."""
        process = await asyncio.create_subprocess_exec(
            *("nsenter", "--target", str(self.pid), "--pid", "--mount", "--wd=/", "--"),
            *(str(self.runner), "attach"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        channel = PipeChannel(process)
        self.channels.append(channel)
        return channel

    def session(self, **options: object) -> Session:
        """A session with this runner; enter it to connect."""
        return Session(self.open_channel, pod_uid="local", **options)  # type: ignore[arg-type]


@asynccontextmanager
async def local_sandbox(
    runner: Path, *, through: tuple[str, ...] = ()
) -> AsyncIterator[LocalSandbox]:
    """Starts a runner as PID 1 in a process and mount namespace of its own; it serves.

    Args:
        through: a command in front that ends in executing the runner.
    """
    with tempfile.TemporaryDirectory() as workdir:
        os.chmod(workdir, 0o777)  # noqa: PTH101 - for commands of other users
        launcher = await asyncio.create_subprocess_exec(
            *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
            *(*through, str(runner), "serve"),
            cwd=workdir,
            env={**os.environ, "IMAGE_VARIABLE": "from image"},
            stdin=asyncio.subprocess.DEVNULL,
        )
        pid = await _only_child(launcher.pid)
        socket = f"@episode-runner/{await asyncio.to_thread(os.readlink, f'/proc/{pid}/ns/pid')}"
        try:
            await eventually(lambda: socket in Path("/proc/net/unix").read_text())
            yield LocalSandbox(runner, pid, launcher, Path(workdir))
        finally:
            # Its namespace ends with it. `--kill-child` is not enough where it changed its user.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            await launcher.wait()


def _children(parent: int) -> list[int]:
    try:
        return [
            int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        ]
    except FileNotFoundError:
        return []


async def _only_child(parent: int) -> int:
    await eventually(lambda: _children(parent))
    (child,) = await asyncio.to_thread(_children, parent)
    return child


async def eventually(condition: Callable[[], object | Awaitable[object]]) -> None:
    """Returns once the condition holds; fails after 20 s."""
    async with asyncio.timeout(20):
        while True:
            holds = condition()
            if isinstance(holds, Awaitable):
                holds = await holds
            if holds:
                return
            await asyncio.sleep(0.01)
