"""Frames: exact over any cut, and no damage unseen."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episode_operator.sandbox import protocol
from episode_operator.sandbox.protocol import Assembler, DamagedStream, Decoder, Encoder, Frame

FRAMES = st.lists(st.tuples(st.integers(1, 6), st.binary(max_size=300)), min_size=1, max_size=8)


def cut(stream: bytes, lengths: list[int]) -> list[bytes]:
    pieces, start = [], 0
    for length in lengths:
        pieces.append(stream[start : start + length])
        start += length
    return [*pieces, stream[start:]]


def encoded(frames: list[tuple[int, bytes]]) -> list[bytes]:
    encoder = Encoder()
    return [encoder.encode(kind, body) for kind, body in frames]


@given(frames=FRAMES, lengths=st.lists(st.integers(0, 200)))
def test_frames_survive_any_cut(frames: list[tuple[int, bytes]], lengths: list[int]) -> None:
    stream = b"".join(encoded(frames))
    decoder = Decoder()
    seen = [frame for piece in cut(stream, lengths) for frame in decoder.feed(piece)]
    assert seen == [Frame(kind, body) for kind, body in frames]


def read(stream: bytes) -> tuple[list[Frame], bool]:
    """The frames up to the stream's end or its first damage, and whether there was any."""
    seen: list[Frame] = []
    try:
        for frame in Decoder().feed(stream):
            seen.append(frame)
    except DamagedStream:
        return seen, True
    return seen, False


@given(frames=FRAMES, data=st.data())
def test_damage_never_yields_a_wrong_frame(
    frames: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(encoded(frames))
    at = data.draw(st.integers(0, len(stream) - 1))
    how = data.draw(st.sampled_from(["flip", "lose", "repeat"]))
    if how == "flip":
        bit = 1 << data.draw(st.integers(0, 7))
        stream = stream[:at] + bytes([stream[at] ^ bit]) + stream[at + 1 :]
    elif how == "lose":
        until = data.draw(st.integers(at + 1, len(stream)))
        stream = stream[:at] + stream[until:]
    else:
        stream = stream[:at] + stream[at : at + 1] + stream[at:]
    seen, _ = read(stream)
    assert seen == frames[: len(seen)]


WHOLE = st.lists(st.tuples(st.integers(1, 6), st.binary(max_size=300)), min_size=2, max_size=8)


@given(frames=WHOLE, data=st.data())
def test_a_frame_that_is_lost_repeated_or_out_of_order_is_damage(
    frames: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    said = encoded(frames)
    at = data.draw(st.integers(0, len(said) - 2))
    how = data.draw(st.sampled_from(["lost", "repeated", "swapped"]))
    before, frame, after, rest = said[:at], said[at], said[at + 1], said[at + 2 :]
    changed = {
        "lost": [after],
        "repeated": [frame, frame, after],
        "swapped": [after, frame],
    }[how]
    good = frames[: at + (how == "repeated")]
    assert read(b"".join([*before, *changed, *rest])) == (good, True)


def test_a_new_connection_starts_anew() -> None:
    hello = encoded([(protocol.HELLO, b"{}")])
    assert hello == encoded([(protocol.HELLO, b"{}")])
    assert read(hello[0] + hello[0]) == ([Frame(protocol.HELLO, b"{}")], True)


def test_known_bytes() -> None:
    """The same bytes as in images/runner/internal/wire (TestKnownBytes)."""
    encoder = Encoder()
    part = encoder.encode_part(7, True, protocol.join_message(b"", b"ab"))
    assert part.hex() == "0000000ce40600cf020000000701000000006162"
    ack = encoder.encode(protocol.ACK, protocol.encode_ack(258))
    assert ack.hex() == "00000009a1ead831030000000000000102"
    assert protocol.decode_ack(bytes.fromhex("0000000000000102")) == 258


@given(
    st.dictionaries(st.integers(0, 2**32 - 1), st.lists(st.binary(max_size=50), min_size=1)),
    st.randoms(),
)
def test_parts_of_streams_may_mix(parts: dict[int, list[bytes]], random: Random) -> None:
    turns = [stream for stream, pieces in parts.items() for _ in pieces]
    random.shuffle(turns)
    rest = {stream: list(pieces) for stream, pieces in parts.items()}
    encoder, decoder, assembler, seen = Encoder(), Decoder(), Assembler(), {}
    for stream in turns:
        piece = rest[stream].pop(0)
        frame = encoder.encode_part(stream, not rest[stream], piece)
        (decoded,) = decoder.feed(frame)
        complete = assembler.add(decoded.body)
        assert (complete is not None) == (not rest[stream])
        if complete is not None:
            seen[complete[0]] = complete[1]
    assert seen == {stream: b"".join(pieces) for stream, pieces in parts.items()}


@pytest.mark.parametrize("body", [b"", b"\0\0\0\1", b"\0\0\0\1\2data"])
def test_a_malformed_part_is_damage(body: bytes) -> None:
    with pytest.raises(DamagedStream):
        Assembler().add(body)


def test_a_message_without_end_is_damage() -> None:
    assembler = Assembler()
    body = b"\0\0\0\1\0" + bytes(protocol.CHUNK_LENGTH)
    with pytest.raises(DamagedStream):
        for _ in range(2 * protocol.MAX_MESSAGE // protocol.CHUNK_LENGTH + 1):
            assembler.add(body)


@given(st.binary(), st.binary())
def test_messages(header: bytes, payload: bytes) -> None:
    assert protocol.split_message(protocol.join_message(header, payload)) == (header, payload)


@pytest.mark.parametrize("message", [b"", b"\0\0\0", b"\0\0\0\5abc"])
def test_a_malformed_message_is_damage(message: bytes) -> None:
    with pytest.raises(DamagedStream):
        protocol.split_message(message)


def test_an_acknowledgement_has_eight_bytes() -> None:
    with pytest.raises(DamagedStream):
        protocol.decode_ack(b"\0" * 7)
