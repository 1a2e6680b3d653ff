"""The payload codec: exact, deterministic, and strict when written and when read."""

from dataclasses import replace

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from episode_operator.results.payload import PayloadError, TokenRow, decode, encode


@st.composite
def rows(draw: st.DrawFn) -> TokenRow:
    n = draw(st.integers(0, 50))
    mask = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=np.bool_)
    values = draw(st.lists(st.floats(-100, 0, width=32, allow_nan=False), min_size=n, max_size=n))
    return TokenRow(
        tokens=np.array(
            draw(st.lists(st.integers(0, 2**31 - 1), min_size=n, max_size=n)), dtype=np.int32
        ),
        mask=mask,
        logprobs=np.where(mask, np.array(values, dtype=np.float32), np.float32(0)).astype(
            np.float32
        ),
        turn=np.sort(
            np.array(draw(st.lists(st.integers(0, 999), min_size=n, max_size=n)), dtype=np.int16)
        ),
    )


def row() -> TokenRow:
    return TokenRow(
        tokens=np.array([5, 6, 7], dtype=np.int32),
        mask=np.array([False, True, True]),
        logprobs=np.array([0, -0.5, -1.25], dtype=np.float32),
        turn=np.array([0, 0, 1], dtype=np.int16),
    )


@given(rows())
def test_round_trip(value: TokenRow) -> None:
    back = decode(encode(value))
    for name, array in value.arrays().items():
        np.testing.assert_array_equal(array, back.arrays()[name])


def test_encoding_is_deterministic() -> None:
    assert encode(row()) == encode(row())


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("logprobs", np.array([0, np.nan, -1], dtype=np.float32)),
        ("logprobs", np.array([0, -np.inf, -1], dtype=np.float32)),
        ("logprobs", np.array([0, 0.1, -1], dtype=np.float32)),
        ("logprobs", np.array([-1, -1, -1], dtype=np.float32)),
        ("logprobs", np.array([0, -1], dtype=np.float32)),
        ("logprobs", np.array([0, -1, -1], dtype=np.float64)),
        ("tokens", np.array([5, -1, 7], dtype=np.int32)),
        ("turn", np.array([1, 0, 1], dtype=np.int16)),
        ("mask", np.array([0, 1, 1], dtype=np.int8)),
    ],
)
def test_an_inconsistent_row_is_refused(name: str, bad: np.ndarray) -> None:
    with pytest.raises(PayloadError, match=name):
        encode(replace(row(), **{name: bad}))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        zstandard.compress(b"nonsense"),
        zstandard.compress(save({"tokens": np.zeros(1, dtype=np.int32)})),
        encode(row())[:-3],
    ],
)
def test_bytes_that_are_no_payload_are_refused(data: bytes) -> None:
    with pytest.raises(PayloadError):
        decode(data)


def test_an_inconsistent_row_is_refused_when_read() -> None:
    arrays = {**row().arrays(), "logprobs": np.array([0, np.nan, 0], dtype=np.float32)}
    with pytest.raises(PayloadError, match="logprobs"):
        decode(zstandard.compress(save(arrays)))
