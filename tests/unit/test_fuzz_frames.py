"""What a runner's side may say: frames, links and answers of any bytes."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from episode_operator.sandbox import protocol
from tests.fuzz.checks import frames, links
from tests.fuzz.profile import PROFILE

BODIES = st.binary(max_size=40)
PARTS = st.builds(
    lambda stream, last, data: stream.to_bytes(4, "big") + bytes((last,)) + data,
    st.integers(0, 3),
    st.integers(0, 1),
    BODIES,
)
FRAMES = st.lists(
    st.tuples(st.integers(0, 8), BODIES) | PARTS.map(lambda body: (protocol.PART, body)),
    max_size=6,
)
CUTS = st.lists(st.integers(0, 500), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "result", "reason", "path", "x"]), inner)
    ),
    max_leaves=6,
).map(orjson.dumps)
HELLOS = st.fixed_dictionaries(
    {},
    optional={
        "version": st.sampled_from([protocol.VERSION, 0, "1", None]),
        "instance": st.text(max_size=3) | st.none(),
        "uptimeSeconds": st.floats(0, 9) | st.text(max_size=2),
        "journalLength": st.integers(-1, 3) | st.none(),
    },
).map(orjson.dumps)


@st.composite
def said(draw: st.DrawFn, greeting: bytes = b"") -> bytes:
    """Frames behind a greeting: some are lost, repeated or moved, or some of the bytes changed."""
    encoder = protocol.Encoder()
    start = encoder.encode(protocol.HELLO, greeting) if greeting else b""
    sent = [encoder.encode(kind, body) for kind, body in draw(FRAMES)]
    wholes, changed = draw(st.tuples(st.booleans(), st.booleans()))
    stream = b"".join(
        draw(st.lists(st.sampled_from(sent), max_size=6)) if wholes and sent else sent
    )
    if changed:
        at = draw(st.integers(0, len(stream)))
        until = draw(st.integers(at, min(at + 9, len(stream))))
        stream = stream[:at] + draw(st.binary(max_size=9)) + stream[until:]
    return start + stream


@PROFILE
@given(said() | st.binary(max_size=100), CUTS)
def test_a_stream_in_pieces_is_what_it_is_in_one(stream: bytes, cuts: list[int]) -> None:
    frames.check_stream(stream, cuts)


@PROFILE
@given(st.lists(PARTS | BODIES, max_size=9))
def test_parts_in_any_order(parts: list[bytes]) -> None:
    frames.check_parts(parts)


@PROFILE
@given(BODIES | st.builds(protocol.join_message, BODIES, BODIES))
def test_messages(message: bytes) -> None:
    frames.check_message(message)


@PROFILE
@given(said(links.GREETING), CUTS)
def test_a_link_gives_what_was_said_or_ends(stream: bytes, cuts: list[int]) -> None:
    links.check_link(stream, cuts)


@PROFILE
@given(
    st.one_of(
        (JSON | HELLOS | BODIES).map(lambda body: protocol.Encoder().encode(protocol.HELLO, body)),
        BODIES,
        said(),
    ),
    CUTS,
)
def test_any_greeting(greeting: bytes, cuts: list[int]) -> None:
    links.check_greeting(greeting, cuts)


@PROFILE
@given(st.builds(protocol.join_message, JSON | BODIES, BODIES) | BODIES)
def test_any_answer_ends_the_wait(message: bytes) -> None:
    links.check_answer(message)
