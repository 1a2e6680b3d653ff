"""Frames between the operator and the runner, the same both ways.

    frame   = length u32, crc32 u32, body                           (big endian)
    crc32   = IEEE, of this body, seeded with that of the frame before it in the same direction of
              the same connection (the first with 0): a frame that is lost, repeated or out of order
              does not fit, as little as a changed one
    body    = kind u8, then by kind:
      HELLO    JSON                      first frame of each side
      PART     stream u32, last u8, data a piece of a request or of its response
      ACK      total u64                 bytes of PART frames taken off this connection so far
      PING     opaque, answered by a PONG with the same bytes
      GOODBYE  JSON {reason, message}    the sender is about to close, and why
    message = header length u32, JSON header, payload bytes

images/runner/internal/wire is the other side.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

VERSION: Final = 2
HELLO: Final = 1
PART: Final = 2
ACK: Final = 3
PING: Final = 4
PONG: Final = 5
GOODBYE: Final = 6

PREFIX_LENGTH: Final = 8
CHUNK_LENGTH: Final = 32 << 10
MAX_BODY: Final = 64 << 10
MAX_MESSAGE: Final = 40 << 20
WINDOW: Final = 256 << 10

_PREFIX = struct.Struct(">II")
_PART_HEAD = struct.Struct(">BIB")
_TOTAL = struct.Struct(">Q")
_LENGTH = struct.Struct(">I")


class DamagedStream(Exception):
    """The stream says what no sender would: it was changed on the way.

    Bytes or whole frames were lost, repeated, moved or changed.
    """


class Frame(NamedTuple):
    """One frame: its kind and the rest of its body."""

    kind: int
    body: bytes


def encode_ack(total: int) -> bytes:
    """The body of an ACK frame; `total` in bytes of PART frames."""
    return _TOTAL.pack(total)


def decode_ack(body: bytes) -> int:
    """The total that an ACK frame's body tells, in bytes."""
    if len(body) != _TOTAL.size:
        raise DamagedStream(f"acknowledgement of {len(body)} bytes")
    total: int = _TOTAL.unpack(body)[0]
    return total


def join_message(header: bytes, payload: bytes) -> bytes:
    """A message of a JSON header and a payload."""
    return b"".join((_LENGTH.pack(len(header)), header, payload))


def split_message(message: bytes) -> tuple[bytes, bytes]:
    """The JSON header and the payload of a message."""
    if len(message) < _LENGTH.size:
        raise DamagedStream(f"message of {len(message)} bytes")
    end = _LENGTH.size + _LENGTH.unpack_from(message)[0]
    if end > len(message):
        raise DamagedStream(f"header of {end} bytes in a message of {len(message)}")
    return message[_LENGTH.size : end], message[end:]


class Encoder:
    """Makes the frames of one direction of one connection, in the order in which they are sent."""

    def __init__(self) -> None:
        self._checksum = 0

    def encode(self, kind: int, body: bytes) -> bytes:
        """The next frame."""
        return self._frame(bytes((kind,)), body)

    def encode_part(self, stream: int, last: bool, data: bytes | memoryview) -> bytes:
        """The next frame, a PART."""
        return self._frame(_PART_HEAD.pack(PART, stream, last), data)

    def _frame(self, head: bytes, data: bytes | memoryview) -> bytes:
        self._checksum = zlib.crc32(data, zlib.crc32(head, self._checksum))
        return b"".join((_PREFIX.pack(len(head) + len(data), self._checksum), head, data))


class Decoder:
    """Takes the frames of one direction of one connection off its pieces of any length."""

    def __init__(self) -> None:
        self._buffer = b""
        self._checksum = 0

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yields the frames that are complete now. Exhaust it before the next call.

        Raises:
            DamagedStream: a length or a checksum is wrong: bytes were changed, or whole frames
                lost, repeated or moved. The connection is of no use any more.
        """
        buffer = self._buffer + data if self._buffer else data
        start, end = 0, len(buffer)
        while end - start >= PREFIX_LENGTH:
            length, checksum = _PREFIX.unpack_from(buffer, start)
            if not 1 <= length <= MAX_BODY:
                raise DamagedStream(f"frame of {length} bytes")
            after = start + PREFIX_LENGTH + length
            if after > end:
                break
            body = buffer[start + PREFIX_LENGTH : after]
            self._checksum = zlib.crc32(body, self._checksum)
            if self._checksum != checksum:
                raise DamagedStream(f"a frame of {length} bytes was changed, or is not the next")
            start = after
            yield Frame(body[0], body[1:])
        self._buffer = buffer[start:]


class Assembler:
    """Joins the PART frames of each stream to messages."""

    def __init__(self) -> None:
        self._streams: dict[int, list[bytes]] = {}
        self._held = 0

    def add(self, body: bytes) -> tuple[int, bytes] | None:
        """The stream's number and its whole message once the last part is in, else None.

        Raises:
            DamagedStream: the part makes no sense, or messages do not end.
        """
        if len(body) < 5 or body[4] > 1:
            raise DamagedStream(f"part of {len(body)} bytes")
        stream: int = _LENGTH.unpack_from(body)[0]
        held = self._streams.get(stream)
        if body[4] == 1:
            if held is None:
                return stream, body[5:]
            del self._streams[stream]
            self._held -= sum(map(len, held))
            held.append(body[5:])
            return stream, b"".join(held)
        if held is None:
            held = self._streams[stream] = []
        held.append(body[5:])
        self._held += len(body) - 5
        if self._held > 2 * MAX_MESSAGE:
            raise DamagedStream(f"{self._held} bytes of messages that do not end")
        return None
