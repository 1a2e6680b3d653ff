"""One attached connection: hellos, frames, acknowledgements, windows. A session may use many."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from . import protocol
from .channel import Channel, ChannelClosed

_BATCH_LENGTH = 64 << 10
_PING_AFTER_SECONDS = 15.0
_DEAD_AFTER_SECONDS = 45.0
_HELLO_SECONDS = 20.0


class LinkLost(Exception):
    """The link ended; another one may be opened."""


class LinkSuperseded(Exception):
    """The runner closed the link because another client attached."""


class LinkIncompatible(Exception):
    """The runner speaks another version of the protocol."""


@dataclass(frozen=True, slots=True)
class Hello:
    """What the runner says of itself first.

    Attributes:
        instance: changes when the container restarts.
        uptime_seconds: how long this instance has been running.
        journal_length: number of entries in its journal.
    """

    instance: str
    uptime_seconds: float
    journal_length: int


def _hello(first: protocol.Frame) -> Hello:
    refusal = f"the runner greets with {first.body[:100]!r}"
    try:
        fields = orjson.loads(first.body) if first.kind == protocol.HELLO else None
    except orjson.JSONDecodeError as error:
        raise LinkIncompatible(refusal) from error
    match fields:
        case {
            "version": protocol.VERSION,
            "instance": str(instance),
            "uptimeSeconds": int() | float() as uptime,
            "journalLength": int(length),
        }:
            return Hello(instance, uptime, length)
    raise LinkIncompatible(refusal)


class Link:
    """Sends messages and hands each complete response to `on_message(stream, message)`."""

    def __init__(self, channel: Channel, on_message: Callable[[int, bytes], None]) -> None:
        self._channel = channel
        self._on_message = on_message
        self._encoder = protocol.Encoder()
        self._decoder = protocol.Decoder()
        self._assembler = protocol.Assembler()
        self._early: list[protocol.Frame] = []
        self._control: list[protocol.Frame] = []
        self._queue: deque[tuple[int, memoryview]] = deque()
        self._wake = asyncio.Event()
        self._sent = 0
        self._acknowledged = 0
        self._taken = 0
        self._reported = 0
        self._heard = time.monotonic()

    async def open(self, client: str) -> Hello:
        """Exchanges hellos. `client` is the same for every link of one session.

        Raises:
            LinkLost: the channel ended, or the runner did not answer in time.
            LinkIncompatible: another version answered.
        """
        greeting = orjson.dumps({"version": protocol.VERSION, "client": client})
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                await self._channel.send(self._encoder.encode(protocol.HELLO, greeting))
                while not self._early:
                    self._early.extend(self._decoder.feed(await self._channel.receive()))
        except (TimeoutError, ChannelClosed, protocol.DamagedStream) as error:
            raise LinkLost(f"no hello from the runner: {error}") from error
        return _hello(self._early.pop(0))

    def send(self, stream: int, message: bytes) -> None:
        """Queues a message. It takes turns of one chunk with the others, as the window allows."""
        self._queue.append((stream, memoryview(message)))
        self._wake.set()

    def drop(self, stream: int) -> None:
        """Forgets what of a message is still to be sent; nobody waits for its answer."""
        self._queue = deque(entry for entry in self._queue if entry[0] != stream)

    async def run(self) -> None:
        """Works until the link ends, which is always told by an exception.

        Raises:
            LinkLost, LinkSuperseded
        """
        tasks = [
            asyncio.ensure_future(work) for work in (self._read(), self._write(), self._watch())
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            await self._channel.close()
        for error in ended:
            if isinstance(error, LinkSuperseded):
                raise error
        error = next(iter(done)).exception()
        raise LinkLost(str(error)) from error

    async def close(self) -> None:
        """Closes the channel of a link that does not run."""
        await self._channel.close()

    async def _read(self) -> None:
        for frame in self._early:
            self._handle(frame)
        # This waits for nothing but the channel: the exec stream loses bytes of a slow reader.
        while True:
            data = await self._channel.receive()
            self._heard = time.monotonic()
            for frame in self._decoder.feed(data):
                self._handle(frame)
            if self._taken - self._reported >= protocol.WINDOW // 4:
                self._reported = self._taken
                self._send_control(protocol.ACK, protocol.encode_ack(self._taken))

    def _handle(self, frame: protocol.Frame) -> None:
        kind, body = frame
        if kind == protocol.PART:
            self._taken += protocol.PREFIX_LENGTH + 1 + len(body)
            complete = self._assembler.add(body)
            if complete is not None:
                self._on_message(*complete)
        elif kind == protocol.ACK:
            total = protocol.decode_ack(body)
            if not self._acknowledged <= total <= self._sent:
                raise protocol.DamagedStream(f"{total} bytes acknowledged of {self._sent}")
            self._acknowledged = total
            self._wake.set()
        elif kind == protocol.PING:
            self._send_control(protocol.PONG, body)
        elif kind == protocol.GOODBYE:
            fields = orjson.loads(body)
            message = f"the runner ended the link: {fields.get('message', '')}"
            if fields.get("reason") == "Superseded":
                raise LinkSuperseded(message)
            raise LinkLost(message)

    def _send_control(self, kind: int, body: bytes) -> None:
        self._control.append(protocol.Frame(kind, body))
        self._wake.set()

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while batch := self._next_batch():
                await self._channel.send(batch)

    def _next_batch(self) -> bytes:
        frames = [self._encoder.encode(kind, body) for kind, body in self._control]
        self._control.clear()
        length = 0
        room = protocol.WINDOW - protocol.CHUNK_LENGTH - 64
        while self._queue and length < _BATCH_LENGTH and self._sent - self._acknowledged <= room:
            stream, rest = self._queue.popleft()
            last = len(rest) <= protocol.CHUNK_LENGTH
            frame = self._encoder.encode_part(stream, last, rest[: protocol.CHUNK_LENGTH])
            if not last:
                self._queue.append((stream, rest[protocol.CHUNK_LENGTH :]))
            frames.append(frame)
            length += len(frame)
            self._sent += len(frame)
        return b"".join(frames)

    async def _watch(self) -> None:
        """Notices a link that died without being closed, and keeps an idle one open.

        The answer to a ping shows too whether the last frame before it was lost.
        """
        while True:
            await asyncio.sleep(_PING_AFTER_SECONDS)
            silence = time.monotonic() - self._heard
            if silence >= _DEAD_AFTER_SECONDS:
                raise LinkLost(f"nothing heard from the runner for {silence:.0f} s")
            if silence >= _PING_AFTER_SECONDS / 2:
                self._send_control(protocol.PING, b"")
