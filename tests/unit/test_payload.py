"""The payload codec: exact, deterministic, and strict when written and when read."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from episode_operator.results.arrays import PayloadError
from episode_operator.results.payload import TokenRow, decode, encode


@st.composite
def rows(draw: st.DrawFn, *, most: int = 50) -> TokenRow:
    n = draw(st.integers(0, most))
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


@st.composite
def rows_with_student_topk(draw: st.DrawFn, *, least: int = 0) -> TokenRow:
    """Rows whose student top-k has at least so many tokens at each sampled position."""
    plain = draw(rows(most=8))
    counts, ids, logprobs = [], [], []
    values = plain.logprobs.copy()
    for at in np.flatnonzero(plain.mask):
        top = draw(top_tokens(least=least, sampled=int(plain.tokens[at])))
        counts.append(len(top))
        ids += [token_id for token_id, _ in top]
        logprobs += [logprob for _, logprob in top]
        own = dict(top).get(int(plain.tokens[at]))
        values[at] = own if own is not None else draw(floats(most=top[-1][1] if top else 0))
    return replace(
        plain,
        logprobs=values,
        student_topk_counts=np.array(counts, dtype=np.int16),
        student_topk_token_ids=np.array(ids, dtype=np.int32),
        student_topk_logprobs=np.array(logprobs, dtype=np.float32),
    )


def floats(*, most: float = 0.0) -> st.SearchStrategy[float]:
    return st.floats(-100, most, width=32, allow_nan=False)


@st.composite
def top_tokens(
    draw: st.DrawFn, *, sampled: int, least: int = 0, most: int = 5
) -> list[tuple[int, float]]:
    """Different ids, often the sampled one among them, in falling order of their values."""
    ids = draw(
        st.lists(st.integers(0, 9) | st.just(sampled), min_size=least, max_size=most, unique=True)
    )
    values = draw(st.lists(floats(), min_size=len(ids), max_size=len(ids)))
    return list(zip(ids, sorted(values, reverse=True), strict=True))


def row() -> TokenRow:
    return TokenRow(
        tokens=np.array([5, 6, 7], dtype=np.int32),
        mask=np.array([False, True, True]),
        logprobs=np.array([0, -0.5, -1.25], dtype=np.float32),
        turn=np.array([0, 0, 1], dtype=np.int16),
    )


def row_with_student_topk() -> TokenRow:
    """The id sampled at 1 is the likeliest of three; the one at 2 is not among two."""
    return replace(
        row(),
        student_topk_counts=np.array([3, 2], dtype=np.int16),
        student_topk_token_ids=np.array([6, 1, 2, 3, 4], dtype=np.int32),
        student_topk_logprobs=np.array([-0.5, -1.5, -2, -0.75, -1.25], dtype=np.float32),
    )


@given(rows() | rows_with_student_topk())
def test_round_trip(value: TokenRow) -> None:
    back = decode(encode(value))
    assert back.arrays().keys() == value.arrays().keys()
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
    ("name", "bad"),
    [
        ("student_topk_counts", np.array([3, 2, 0], dtype=np.int16)),
        ("student_topk_counts", np.array([6, -1], dtype=np.int16)),
        ("student_topk_counts", np.array([3, 2], dtype=np.int32)),
        ("student_topk_token_ids", np.array([6, 1, 2, 3], dtype=np.int32)),
        ("student_topk_token_ids", np.array([6, 1, 1, 3, 4], dtype=np.int32)),
        ("student_topk_token_ids", np.array([6, -1, 2, 3, 4], dtype=np.int32)),
        ("student_topk_token_ids", np.array([6, 1, 2, 3, 4], dtype=np.int64)),
        ("student_topk_logprobs", np.array([-0.5, -2, -1.5, -0.75, -1.25], dtype=np.float32)),
        ("student_topk_logprobs", np.array([-0.5, -1.5, np.nan, -0.75, -1], dtype=np.float32)),
        ("student_topk_logprobs", np.array([-0.5, -1.5, -np.inf, -0.75, -1], dtype=np.float32)),
        ("student_topk_logprobs", np.array([-0.5, -1.5, -2, 0.25, -1], dtype=np.float32)),
        ("student_topk_logprobs", np.array([[-0.5, -1.5, -2, -1, -1]], dtype=np.float32)),
        ("logprobs", np.array([0, -0.25, -1.25], dtype=np.float32)),
        ("logprobs", np.array([0, -0.5, -1], dtype=np.float32)),
        ("student_topk_counts", None),
        ("student_topk_token_ids", None),
        ("student_topk_logprobs", None),
    ],
)
def test_a_student_topk_that_does_not_fit_is_refused(name: str, bad: np.ndarray | None) -> None:
    encode(row_with_student_topk())
    changed: dict[str, Any] = {name: bad}
    with pytest.raises(PayloadError, match=name):
        encode(replace(row_with_student_topk(), **changed))


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
