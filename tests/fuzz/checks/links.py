"""Links: a runner's side that says anything gives its messages, or an error that has a type."""

import asyncio
from collections.abc import Sequence

import orjson

from episode_operator.sandbox import protocol
from episode_operator.sandbox.channel import ChannelClosed, ChannelRefused
from episode_operator.sandbox.errors import SandboxError
from episode_operator.sandbox.link import Link, LinkIncompatible, LinkLost, LinkSuperseded
from episode_operator.sandbox.protocol import ACK, GOODBYE, HELLO, PART
from episode_operator.sandbox.requester import Answer, Requester
from tests.fuzz.checks.frames import messages, pieces, reading

_TURNS = 200
"""More turns of the loop than a session needs to work off what is there."""
GREETING = orjson.dumps(
    {"version": protocol.VERSION, "instance": "i", "uptimeSeconds": 1.5, "journalLength": 0}
)
_TIMES = (1, 0, 2, 0)
"""How often a frame of a script is said at its place, by its fate."""
_LATE = 3
"""The fate of a frame that is said behind the next one."""


def greeted() -> tuple[bytes, protocol.Encoder]:
    """A right greeting, and what makes the frames behind it."""
    encoder = protocol.Encoder()
    return encoder.encode(HELLO, GREETING), encoder


class Script:
    """A channel whose far end says what it was given, and then is gone."""

    def __init__(self, said: Sequence[bytes]) -> None:
        self._said = [piece for piece in said if piece]

    async def send(self, data: bytes) -> None:
        """Takes anything."""

    async def receive(self) -> bytes:
        await asyncio.sleep(0)
        if not self._said:
            raise ChannelClosed("the end")
        return self._said.pop(0)

    async def close(self) -> None:
        """Nothing is held."""


async def heard(said: Sequence[bytes]) -> tuple[list[tuple[int, bytes]], Exception]:
    """The messages that a link gives of what is said to it, and how it ends."""
    seen: list[tuple[int, bytes]] = []
    link = Link(Script(said), lambda stream, message: seen.append((stream, message)))
    try:
        await link.open("me")
        await link.run()
    except (LinkLost, LinkSuperseded, LinkIncompatible) as error:
        return seen, error
    raise AssertionError("a link ended without a word")


def expected(stream: bytes) -> list[tuple[int, bytes]]:
    """The messages of a stream behind its greeting, up to what ends the link."""
    parts: list[bytes] = []
    for kind, body in reading(stream).frames[1:]:
        if kind == PART:
            parts.append(body)
            if messages(parts)[1]:
                break
        elif kind == GOODBYE or (kind == ACK and body != bytes(8)):
            break  # nothing was sent, so nothing else can have been acknowledged
    return messages(parts)[0]


def check_link(said: bytes, cuts: Sequence[int]) -> None:
    """A right greeting with anything behind it. What comes in one piece with damage may be lost."""
    seen, _ = asyncio.run(heard(pieces(said, cuts)))
    complete = expected(said)
    assert seen == (complete[: len(seen)] if reading(said).damaged else complete)


def check_greeting(greeting: bytes, cuts: Sequence[int]) -> None:
    """Anything said in place of a greeting; a link is never opened by what is none."""
    asyncio.run(heard(pieces(greeting, cuts)))


def check_answer(message: bytes) -> None:
    """Any message as the answer to a request: what it says, or an error; the wait always ends."""
    greeting, encoder = greeted()
    answer = asyncio.run(_ask(greeting + encoder.encode_part(1, True, message)))
    if isinstance(answer, SandboxError):
        return
    header, payload = protocol.split_message(message)
    fields = orjson.loads(header)
    assert answer == Answer(fields.get("result"), payload) and "error" not in fields


async def _ask(said: bytes) -> Answer | SandboxError:
    links = [Script([said])]

    async def open_channel() -> Script:
        if not links:
            raise ChannelRefused("gone", final=True)
        return links.pop()

    requester = Requester(open_channel, pod_uid="u", reconnect_seconds=1.0, instance=None)
    await requester.start()
    request = asyncio.create_task(requester.request("any", {}))
    try:
        for _ in range(_TURNS):
            if request.done():
                break
            await asyncio.sleep(0)
        assert request.done(), f"no end of the wait for {said!r}"
        try:
            return request.result()
        except SandboxError as error:
            return error
    finally:
        request.cancel()
        await requester.stop()


def script(data: bytes, encoder: protocol.Encoder) -> bytes:
    """Frames, from bytes that say of each its kind and fate, its length and its body.

    Kind 0 is no frame but plain bytes. Fates: said, lost, repeated, or late.
    """
    said, late, rest = b"", b"", data
    while len(rest) >= 2:
        kind, fate, length = rest[0] % 8, rest[0] // 8 % 4, rest[1]
        body, rest = rest[2 : 2 + length], rest[2 + length :]
        frame = encoder.encode(kind, body) if kind else body
        said += frame * _TIMES[fate] + late
        late = frame if fate == _LATE else b""
    return said + late


def fuzz(data: bytes) -> None:
    """The first byte counts the cuts, that many bytes say where; the rest are frames."""
    count = data[0] & 15 if data else 0
    cuts, rest = data[1 : 1 + count], data[1 + count :]
    greeting, encoder = greeted()
    check_link(greeting + script(rest, encoder), cuts)
    check_greeting(script(rest, protocol.Encoder()), cuts)


def fuzz_answer(data: bytes) -> None:
    """Header and payload, cut at the first line's end; and the bytes as they are."""
    header, _, payload = data.partition(b"\n")
    check_answer(protocol.join_message(header, payload))
    check_answer(data)
