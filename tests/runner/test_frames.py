"""A transport that loses, repeats or swaps whole frames on the way to and from the real runner."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from episode_operator.sandbox.session import Session
from tests.runner.sandbox import LocalSandbox, PipeChannel

pytestmark = pytest.mark.timeout(90)

PREFIX_LENGTH = 8
LENGTH_BYTES = 4
SIZE_BYTES = 300_000
"""Of what goes in and comes out: ten frames each way."""

FAULTS: dict[str, Callable[[bytes, bytes], bytes]] = {
    "lost": lambda _, after: after,
    "repeated": lambda frame, after: frame + frame + after,
    "swapped": lambda frame, after: after + frame,
}


class Tampering:
    """One direction: does something to a frame and the one after it."""

    def __init__(self, at: int, fault: Callable[[bytes, bytes], bytes]) -> None:
        self._at = at
        self._fault = fault
        self._number = 0
        self._rest = b""
        self._held = b""

    def pass_on(self, data: bytes) -> bytes:
        """What of it, and of what was held back, goes on now."""
        self._rest += data
        out = b""
        while len(self._rest) >= PREFIX_LENGTH:
            end = PREFIX_LENGTH + int.from_bytes(self._rest[:LENGTH_BYTES], "big")
            if len(self._rest) < end:
                break
            frame, self._rest = self._rest[:end], self._rest[end:]
            if self._number == self._at:
                self._held = frame
            elif self._number == self._at + 1:
                out += self._fault(self._held, frame)
            else:
                out += frame
            self._number += 1
        return out


class Tampered:
    """A channel with such a direction."""

    def __init__(self, inner: PipeChannel, direction: str, tampering: Tampering) -> None:
        self._inner = inner
        self._direction = direction
        self._tampering = tampering

    async def send(self, data: bytes) -> None:
        if self._direction == "to the runner":
            data = self._tampering.pass_on(data)
        await self._inner.send(data)

    async def receive(self) -> bytes:
        data = await self._inner.receive()
        if self._direction == "to the operator":
            while not (data := self._tampering.pass_on(data)):
                data = await self._inner.receive()
        return data

    async def close(self) -> None:
        await self._inner.close()


@asynccontextmanager
async def tampered(
    box: LocalSandbox, direction: str, tampering: Tampering
) -> AsyncIterator[Session]:
    """A session whose first link is tampered with."""
    links = 0

    async def open_channel() -> PipeChannel | Tampered:
        nonlocal links
        links += 1
        channel = await box.open_channel()
        return Tampered(channel, direction, tampering) if links == 1 else channel

    async with Session(open_channel, pod_uid="local", reconnect_seconds=30) as session:
        yield session


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("direction", "at"),
    [("to the runner", 0), ("to the runner", 4), ("to the operator", 2), ("to the operator", 5)],
)
async def test_it_is_noticed_and_everything_happens_once(
    sandbox: LocalSandbox, direction: str, at: int, fault: str
) -> None:
    data = random.randbytes(SIZE_BYTES)
    async with tampered(sandbox, direction, Tampering(at, FAULTS[fault])) as session:
        result = await session.exec(
            "echo once >>ran; cat", timeout_seconds=30, stdin=data, output_limit_bytes=1 << 20
        )
        assert result.stdout.data == data
        assert (sandbox.workdir / "ran").read_text() == "once\n"
        assert session.attachments == 2


@pytest.mark.parametrize("direction", ["to the runner", "to the operator"])
async def test_what_comes_after_a_lost_frame_tells_of_it(
    sandbox: LocalSandbox, direction: str
) -> None:
    """A request or an answer of one frame is lost; the next one shows that."""
    async with tampered(sandbox, direction, Tampering(1, FAULTS["lost"])) as session:
        first = asyncio.create_task(session.exec("echo once >>ran", timeout_seconds=30))
        if direction == "to the operator":
            while not (sandbox.workdir / "ran").exists():
                await asyncio.sleep(0.01)
        else:
            await asyncio.sleep(0)
        second = await session.exec("cat ran", timeout_seconds=30)
        assert (await first).exit_code == 0
        assert (sandbox.workdir / "ran").read_text() == "once\n"
        assert second.stdout.data in (b"", b"once\n")  # they run side by side
        assert session.attachments == 2


async def test_the_ping_of_an_idle_link_tells_of_a_lost_frame(sandbox: LocalSandbox) -> None:
    async with tampered(sandbox, "to the operator", Tampering(1, FAULTS["lost"])) as session:
        result = await session.exec("echo once | tee -a ran", timeout_seconds=30)
        assert result.stdout.data == b"once\n"
        assert (sandbox.workdir / "ran").read_text() == "once\n"
        assert session.attachments == 2
