"""Frames: what comes off a stream of any bytes was sent exactly so, or the stream is damaged."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from zlib import crc32

from episode_operator.sandbox.protocol import (
    MAX_BODY,
    Assembler,
    DamagedStream,
    Decoder,
    join_message,
    split_message,
)

_PREFIX = 8
_LAST = 1


@dataclass
class Reading:
    """What a stream holds: frames up to its end or to the first damage."""

    frames: list[tuple[int, bytes]] = field(default_factory=list)
    damaged: bool = False


def reading(stream: bytes) -> Reading:
    """All frames of a stream, read in one go."""
    seen, rest = Reading(), stream
    bodies = b""  # a checksum is that of all bodies so far
    while len(rest) >= _PREFIX:
        length, checksum = (int.from_bytes(rest[i : i + 4], "big") for i in (0, 4))
        if length == 0 or length > MAX_BODY:
            seen.damaged = True
            break
        body, rest_then = rest[_PREFIX : _PREFIX + length], rest[_PREFIX + length :]
        if len(body) < length:
            break
        bodies += body
        if crc32(bodies) != checksum:
            seen.damaged = True
            break
        seen.frames.append((body[0], body[1:]))
        rest = rest_then
    return seen


def messages(parts: Sequence[bytes]) -> tuple[list[tuple[int, bytes]], bool]:
    """The messages that bodies of PART frames make up, in the order of their ends; damaged?"""
    complete: list[tuple[int, bytes]] = []
    begun: dict[bytes, bytes] = {}
    for part in parts:
        stream, last, data = part[:4], part[4:5], part[5:]
        if len(stream) < 4 or last not in (b"\0", b"\1"):
            return complete, True
        begun[stream] = begun.get(stream, b"") + data
        if last[0] == _LAST:
            complete.append((int.from_bytes(stream, "big"), begun.pop(stream)))
    return complete, False


def pieces(stream: bytes, cuts: Sequence[int]) -> list[bytes]:
    """The stream, cut at these places of it."""
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[a:b] for a, b in pairwise(places)]


def check_stream(stream: bytes, cuts: Sequence[int]) -> None:
    """A stream that arrives in pieces."""
    expected, decoder = reading(stream), Decoder()
    seen: list[tuple[int, bytes]] = []
    damaged = False
    try:
        for piece in pieces(stream, cuts):
            for kind, body in decoder.feed(piece):
                seen.append((kind, body))
    except DamagedStream:
        damaged = True
    assert (seen, damaged) == (expected.frames, expected.damaged)


def check_parts(parts: Sequence[bytes]) -> None:
    """Bodies of PART frames in any order."""
    expected, assembler = messages(parts), Assembler()
    seen: list[tuple[int, bytes]] = []
    damaged = False
    try:
        for part in parts:
            complete = assembler.add(part)
            if complete is not None:
                seen.append(complete)
    except DamagedStream:
        damaged = True
    assert (seen, damaged) == expected


def check_message(message: bytes) -> None:
    """A message: header and payload are cut where its length says, or nowhere."""
    try:
        header, payload = split_message(message)
    except DamagedStream:
        length = int.from_bytes(message[:4], "big")
        assert len(message) < 4 or length > len(message) - 4
    else:
        assert join_message(header, payload) == message


def fuzz(data: bytes) -> None:
    """The first byte counts the cuts, that many bytes say where; the rest is the stream."""
    count = data[0] & 15 if data else 0
    cuts, stream = data[1 : 1 + count], data[1 + count :]
    check_stream(stream, cuts)
    check_message(stream)
    check_parts([body for _, body in reading(stream).frames])
