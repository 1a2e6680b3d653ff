"""The distillation payload: exact, strict against its row, and neutral where it is filled."""

from dataclasses import replace

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from episode_operator.results.arrays import PayloadError
from episode_operator.results.distillation import Distillation, decode, encode
from episode_operator.results.neutral import filled
from episode_operator.results.payload import TokenRow
from tests.unit.test_payload import (
    floats,
    row,
    row_with_student_topk,
    rows_with_student_topk,
    top_tokens,
)

K = 2


@st.composite
def scored_rows(draw: st.DrawFn, *, least: int = 0) -> tuple[TokenRow, Distillation]:
    """A row with a student top-k of at least so many tokens, and its distillation of K."""
    source = draw(rows_with_student_topk(least=least))
    assert source.student_topk_counts is not None
    scored = [at for at in np.flatnonzero(source.mask) if draw(st.booleans())]
    ids, logprobs, sampled = [], [], []
    for at in scored:
        top = draw(top_tokens(sampled=int(source.tokens[at]), least=K, most=K))
        ids.append([token_id for token_id, _ in top])
        logprobs.append([logprob for _, logprob in top])
        own = dict(top).get(int(source.tokens[at]))
        sampled.append(own if own is not None else draw(floats(most=top[-1][1])))
    counts = source.student_topk_counts[np.isin(np.flatnonzero(source.mask), scored)]
    size = int(counts.sum())
    second = draw(st.none() | st.lists(floats(), min_size=size, max_size=size))
    return source, Distillation(
        positions=np.array(scored, dtype=np.int32),
        token_ids=np.array(ids, dtype=np.int32).reshape(-1, K),
        logprobs=np.array(logprobs, dtype=np.float32).reshape(-1, K),
        sampled_logprobs=np.array(sampled, dtype=np.float32),
        student_topk_logprobs=None if second is None else np.array(second, dtype=np.float32),
    )


def distillation() -> Distillation:
    """Of `row()`: both sampled ids scored, the first among the teacher's most likely two."""
    return Distillation(
        positions=np.array([1, 2], dtype=np.int32),
        token_ids=np.array([[9, 6], [3, 4]], dtype=np.int32),
        logprobs=np.array([[-0.5, -1], [-0.25, -3]], dtype=np.float32),
        sampled_logprobs=np.array([-1, -4], dtype=np.float32),
        student_topk_logprobs=np.array([-1, -5, -6, -0.25, -3], dtype=np.float32),
    )


def last_scored() -> Distillation:
    """The same with only the last position scored."""
    whole = distillation()
    assert whole.student_topk_logprobs is not None
    return Distillation(
        positions=whole.positions[1:],
        token_ids=whole.token_ids[1:],
        logprobs=whole.logprobs[1:],
        sampled_logprobs=whole.sampled_logprobs[1:],
        student_topk_logprobs=whole.student_topk_logprobs[3:],
    )


@given(scored_rows())
def test_round_trip(value: tuple[TokenRow, Distillation]) -> None:
    source, written = value
    data = encode(written, source)
    assert data == encode(written, source)
    back = decode(data, source)
    assert back.arrays().keys() == written.arrays().keys()
    for name, array in written.arrays().items():
        np.testing.assert_array_equal(array, back.arrays()[name])


@given(scored_rows())
def test_advantages_are_the_teachers_values_minus_those_of_sampling(
    value: tuple[TokenRow, Distillation],
) -> None:
    source, scored = value
    advantages = scored.advantages(source)
    assert advantages.dtype == np.float32
    whole = scored.row_advantages(source)
    assert whole.dtype == np.float32 and whole.shape == source.tokens.shape
    assert np.flatnonzero(~np.isnan(whole)).tolist() == scored.positions.tolist()
    for at, value_of_teacher in zip(scored.positions, scored.sampled_logprobs, strict=True):
        assert whole[at] == value_of_teacher - source.logprobs[at]
    np.testing.assert_array_equal(whole[scored.positions], advantages)


@given(scored_rows(least=K))
def test_filling_adds_positions_that_pull_nowhere(value: tuple[TokenRow, Distillation]) -> None:
    source, scored = value
    whole = filled(scored, source)
    whole.check(source)
    assert whole.positions.tolist() == np.flatnonzero(source.mask).tolist()
    assert whole.token_ids.shape == whole.logprobs.shape == (whole.positions.size, K)
    was_scored = np.isin(whole.positions, scored.positions)
    for name in ("token_ids", "logprobs", "sampled_logprobs"):
        np.testing.assert_array_equal(getattr(whole, name)[was_scored], getattr(scored, name))
    assert not whole.advantages(source)[~was_scored].any()
    recorded = recorded_tokens(source)
    for entry in np.flatnonzero(~was_scored):
        at = int(whole.positions[entry])
        own = dict(zip(whole.token_ids[entry].tolist(), whole.logprobs[entry], strict=True))
        known = {**recorded[at], int(source.tokens[at]): source.logprobs[at]}
        assert own.items() <= known.items()
        assert own[int(source.tokens[at])] == source.logprobs[at]


def recorded_tokens(source: TokenRow) -> dict[int, dict[int, float]]:
    """Position -> id -> value, as the student recorded them."""
    assert source.student_topk_counts is not None
    assert source.student_topk_token_ids is not None
    assert source.student_topk_logprobs is not None
    found = {}
    start = 0
    for at, count in zip(np.flatnonzero(source.mask), source.student_topk_counts, strict=True):
        part = slice(start, start + int(count))
        ids, values = source.student_topk_token_ids[part], source.student_topk_logprobs[part]
        found[int(at)] = dict(zip(ids.tolist(), values, strict=True))
        start += int(count)
    return found


def test_filling_keeps_the_sampled_id_among_the_most_likely() -> None:
    only_first = replace(
        distillation(),
        **{
            name: getattr(distillation(), name)[:1]
            for name in ("positions", "token_ids", "logprobs", "sampled_logprobs")
        },
        student_topk_logprobs=np.array([-1, -5, -6], dtype=np.float32),
    )
    whole = filled(only_first, row_with_student_topk())
    assert whole.token_ids.tolist() == [[9, 6], [3, 7]]
    assert whole.logprobs.tolist() == [[-0.5, -1], [-0.75, -1.25]]
    assert whole.sampled_logprobs.tolist() == [-1, -1.25]
    assert whole.student_topk_logprobs is not None
    assert whole.student_topk_logprobs.tolist() == [-1, -5, -6, -0.75, -1.25]


def test_nothing_is_filled_without_enough_of_the_students_tokens() -> None:
    with pytest.raises(PayloadError, match=r"student_topk_token_ids: not recorded.*topLogprobs"):
        filled(replace(last_scored(), student_topk_logprobs=None), row())
    short = replace(
        row_with_student_topk(),
        student_topk_counts=np.array([1, 2], dtype=np.int16),
        student_topk_token_ids=np.array([6, 3, 4], dtype=np.int32),
        student_topk_logprobs=np.array([-0.5, -0.75, -1.25], dtype=np.float32),
    )
    with pytest.raises(PayloadError, match=r"student_topk_counts: 1 tokens recorded at position 1"):
        filled(last_scored(), short)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("positions", np.array([2, 1], dtype=np.int32)),
        ("positions", np.array([1, 1], dtype=np.int32)),
        ("positions", np.array([-1, 1], dtype=np.int32)),
        ("positions", np.array([1, 3], dtype=np.int32)),
        ("positions", np.array([0, 1], dtype=np.int32)),
        ("positions", np.array([1, 2], dtype=np.int64)),
        ("positions", np.array([[1, 2]], dtype=np.int32)),
        ("token_ids", np.array([[9, 6]], dtype=np.int32)),
        ("token_ids", np.array([9, 6], dtype=np.int32)),
        ("token_ids", np.array([[], []], dtype=np.int32)),
        ("token_ids", np.array([[9, 6], [3, -4]], dtype=np.int32)),
        ("token_ids", np.array([[9, 6], [3, 3]], dtype=np.int32)),
        ("token_ids", np.array([[9, 6], [3, 4]], dtype=np.uint32)),
        ("logprobs", np.array([[-0.5, -1], [-3, -0.25]], dtype=np.float32)),
        ("logprobs", np.array([[-0.5, -1], [-0.25, np.nan]], dtype=np.float32)),
        ("logprobs", np.array([[-0.5, -1], [-0.25, -np.inf]], dtype=np.float32)),
        ("logprobs", np.array([[0.5, -1], [-0.25, -3]], dtype=np.float32)),
        ("logprobs", np.array([[-0.5, -1, -2], [-0.25, -3, -4]], dtype=np.float32)),
        ("logprobs", np.array([[-0.5, -1], [-0.25, -3]], dtype=np.float16)),
        ("sampled_logprobs", np.array([-1], dtype=np.float32)),
        ("sampled_logprobs", np.array([-1, np.nan], dtype=np.float32)),
        ("sampled_logprobs", np.array([-1, 0.5], dtype=np.float32)),
        ("sampled_logprobs", np.array([-1.5, -4], dtype=np.float32)),
        ("sampled_logprobs", np.array([-1, -0.5], dtype=np.float32)),
        ("student_topk_logprobs", np.array([-1, -5, -6, -0.25], dtype=np.float32)),
        ("student_topk_logprobs", np.array([-1, -5, -6, -0.25, 1], dtype=np.float32)),
        ("student_topk_logprobs", np.array([-1, -5, -6, -0.25, -np.inf], dtype=np.float32)),
        ("student_topk_logprobs", np.array([-1, -5, -6, -0.25, -3], dtype=np.float64)),
    ],
)
def test_values_that_do_not_fit_are_refused_when_written_and_when_read(
    name: str, bad: np.ndarray
) -> None:
    source = row_with_student_topk()
    encode(distillation(), source)
    broken = replace(distillation(), **{name: bad})
    with pytest.raises(PayloadError, match=name):
        encode(broken, source)
    with pytest.raises(PayloadError, match=name):
        decode(zstandard.compress(save(broken.arrays())), source)


def test_a_student_topk_needs_one_in_the_row() -> None:
    with pytest.raises(PayloadError, match="student_topk_logprobs: the row has no student top-k"):
        encode(distillation(), row())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        zstandard.compress(b"nonsense"),
        zstandard.compress(save(row().arrays())),
        encode(distillation(), row_with_student_topk())[:-3],
    ],
)
def test_bytes_that_are_no_payload_are_refused(data: bytes) -> None:
    with pytest.raises(PayloadError):
        decode(data)
