"""One link against a runner's side that the test plays, frame by frame."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import orjson
import pytest

from episode_operator.sandbox import protocol
from episode_operator.sandbox.channel import ChannelClosed
from episode_operator.sandbox.link import Link, LinkIncompatible, LinkLost, LinkSuperseded


class Pipe:
    """A channel whose far end is the test."""

    def __init__(self) -> None:
        self.to_runner: asyncio.Queue[bytes] = asyncio.Queue()
        self.to_operator: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.runner = protocol.Encoder()
        self.closed = False

    async def send(self, data: bytes) -> None:
        self.to_runner.put_nowait(data)

    async def receive(self) -> bytes:
        data = await self.to_operator.get()
        if data is None:
            raise ChannelClosed("the end")
        return data

    async def close(self) -> None:
        self.closed = True

    def say(self, kind: int, body: bytes) -> None:
        self.to_operator.put_nowait(self.runner.encode(kind, body))


def hello(version: int = protocol.VERSION) -> bytes:
    fields = {"version": version, "instance": "i", "uptimeSeconds": 1.5, "journalLength": 2}
    return orjson.dumps(fields)


GREETING = protocol.Encoder().encode(protocol.HELLO, b'{"version":2,"client":"me"}')


def after_greeting() -> protocol.Encoder:
    """What makes the frames of the link's that follow its greeting."""
    encoder = protocol.Encoder()
    encoder.encode(protocol.HELLO, b'{"version":2,"client":"me"}')
    return encoder


@asynccontextmanager
async def running(pipe: Pipe, messages: list[tuple[int, bytes]]) -> AsyncIterator[Link]:
    link = Link(pipe, lambda stream, message: messages.append((stream, message)))
    pipe.say(protocol.HELLO, hello())
    greeting = await link.open("me")
    assert (greeting.instance, greeting.journal_length) == ("i", 2)
    assert await pipe.to_runner.get() == GREETING
    task = asyncio.create_task(link.run())
    yield link
    if not task.done():
        pipe.to_operator.put_nowait(None)
    with pytest.raises(LinkLost):
        await task
    assert pipe.closed


async def test_a_message_comes_in_whole() -> None:
    pipe, messages = Pipe(), list[tuple[int, bytes]]()
    async with running(pipe, messages):
        stream = pipe.runner.encode_part(5, False, b"one ")
        stream += pipe.runner.encode_part(5, True, b"two")
        for index in range(len(stream)):
            pipe.to_operator.put_nowait(stream[index : index + 1])
    assert messages == [(5, b"one two")]


async def test_what_came_with_the_hello_is_not_lost() -> None:
    pipe, messages = Pipe(), list[tuple[int, bytes]]()
    link = Link(pipe, lambda stream, message: messages.append((stream, message)))
    greeting = pipe.runner.encode(protocol.HELLO, hello())
    pipe.to_operator.put_nowait(greeting + pipe.runner.encode_part(1, True, b"early"))
    await link.open("me")
    pipe.to_operator.put_nowait(None)
    with pytest.raises(LinkLost, match="the end"):
        await link.run()
    assert messages == [(1, b"early")]


async def test_the_window_is_kept() -> None:
    pipe = Pipe()
    decoder, assembler = protocol.Decoder(), protocol.Assembler()
    long, short = bytes(range(256)) * 4096, b"short"
    assert list(decoder.feed(GREETING))
    taken = 0
    complete: dict[int, bytes] = {}
    order = []
    async with running(pipe, []) as link:
        link.send(1, long)
        link.send(2, short)
        while len(complete) < 2:
            unacknowledged = 0
            for _ in range(50):  # turns of the loop, more than the link needs to send all it may
                await asyncio.sleep(0)
            while not pipe.to_runner.empty():
                data = pipe.to_runner.get_nowait()
                unacknowledged += len(data)
                for frame in decoder.feed(data):
                    whole = assembler.add(frame.body)
                    order.append(frame.body[:4])
                    if whole is not None:
                        complete[whole[0]] = whole[1]
            assert unacknowledged <= protocol.WINDOW
            taken += unacknowledged
            pipe.say(protocol.ACK, taken.to_bytes(8, "big"))
    assert complete == {1: long, 2: short}
    assert order[1] == b"\0\0\0\2"  # a long message never delays a short one


async def test_what_is_taken_is_acknowledged() -> None:
    pipe = Pipe()
    async with running(pipe, []):
        length = 0
        while length < protocol.WINDOW // 4:
            frame = pipe.runner.encode_part(1, False, bytes(protocol.CHUNK_LENGTH))
            length += len(frame)
            pipe.to_operator.put_nowait(frame)
        said = after_greeting().encode(protocol.ACK, protocol.encode_ack(length))
        assert await pipe.to_runner.get() == said


async def test_a_ping_is_answered() -> None:
    pipe = Pipe()
    async with running(pipe, []):
        pipe.say(protocol.PING, b"12345678")
        said = after_greeting().encode(protocol.PONG, b"12345678")
        assert await pipe.to_runner.get() == said


@pytest.mark.parametrize(
    "bad",
    [
        lambda runner: runner.encode_part(1, True, b"data")[:-1] + b"X",
        lambda runner: runner.encode(protocol.ACK, (99).to_bytes(8, "big")),
        lambda runner: b"\xff" * 8,
        lambda runner: [runner.encode_part(1, True, b"data") for _ in range(2)][1],
        lambda runner: protocol.Encoder().encode_part(1, True, b"data"),
    ],
    ids=["checksum", "acknowledged more than was sent", "length", "one lost", "of another link"],
)
async def test_damage_ends_the_link(bad: Callable[[protocol.Encoder], bytes]) -> None:
    pipe, messages = Pipe(), list[tuple[int, bytes]]()
    async with running(pipe, messages):
        pipe.to_operator.put_nowait(bad(pipe.runner))
    assert messages == []


async def test_another_client_ends_it_for_good() -> None:
    pipe = Pipe()
    link = Link(pipe, lambda *_: None)
    pipe.say(protocol.HELLO, hello())
    await link.open("me")
    pipe.say(protocol.GOODBYE, b'{"reason":"Superseded","message":"another"}')
    pipe.to_operator.put_nowait(None)
    with pytest.raises(LinkSuperseded):
        await link.run()


async def test_hellos_that_are_refused() -> None:
    pipe = Pipe()
    pipe.say(protocol.HELLO, hello(version=99))
    with pytest.raises(LinkIncompatible):
        await Link(pipe, lambda *_: None).open("me")
    pipe = Pipe()
    pipe.to_operator.put_nowait(b"bash: runner: not found, and more of it")
    with pytest.raises(LinkLost):
        await Link(pipe, lambda *_: None).open("me")
    pipe = Pipe()
    pipe.to_operator.put_nowait(None)
    with pytest.raises(LinkLost, match="the end"):
        await Link(pipe, lambda *_: None).open("me")
