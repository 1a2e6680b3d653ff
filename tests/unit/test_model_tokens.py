"""The token buffer and what is checked before ids go in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episode_operator.model.tokens import UNKNOWN_VERSION, TokenBuffer
from episode_operator.model.wire import VersionSpan

ids = st.lists(st.integers(0, 2**31 - 1), max_size=6)
turns = st.lists(st.tuples(ids, st.lists(st.tuples(st.integers(0, 200_000), st.floats(-50, 0)))))


def test_a_row() -> None:
    buffer = TokenBuffer()
    buffer.insert([1, 2])
    buffer.sample([3, 4], [-0.5, -0.25], [VersionSpan(version="a", start=0, end=2)])
    buffer.insert([5])
    buffer.insert([6])
    buffer.sample(
        [7, 8, 9],
        [-1.0, -2.0, 0.0],
        [VersionSpan(version="a", start=0, end=1), VersionSpan(version="b", start=1, end=3)],
    )
    row = buffer.row()
    assert row.tokens.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert row.mask.tolist() == [False, False, True, True, False, False, True, True, True]
    assert row.logprobs.tolist() == [0, 0, -0.5, -0.25, 0, 0, -1, -2, 0]
    assert row.turn.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert [(one.version, one.start, one.end) for one in row.versions] == [
        ("a", 2, 4),
        ("a", 6, 7),
        ("b", 7, 9),
    ]
    dtypes = [one.dtype.name for one in (row.tokens, row.mask, row.logprobs, row.turn)]
    assert dtypes == ["int32", "bool", "float32", "int16"]
    assert buffer.turns == 2 and buffer.sampled_count == 5


@given(turns)
def test_a_row_holds_what_was_added_in_order(
    steps: list[tuple[list[int], list[tuple[int, float]]]],
) -> None:
    buffer = TokenBuffer()
    buffer.insert([0])
    expected: list[tuple[int, bool, float]] = [(0, False, 0.0)]
    for inserted, sampled in steps:
        buffer.insert(inserted)
        buffer.sample([one for one, _ in sampled], [value for _, value in sampled])
        expected += [(one, False, 0.0) for one in inserted]
        expected += [(one, True, value) for one, value in sampled]
    row = buffer.row()
    assert row.tokens.tolist() == [one for one, _, _ in expected]
    assert row.mask.tolist() == [sampled for _, sampled, _ in expected]
    assert np.array_equal(row.logprobs, np.array([v for _, _, v in expected], dtype=np.float32))
    assert np.isfinite(row.logprobs).all()
    assert (np.diff(row.turn) >= 0).all()
    covered = [at for span in row.versions for at in range(span.start, span.end)]
    assert covered == np.flatnonzero(row.mask).tolist()
    assert {span.version for span in row.versions} <= {UNKNOWN_VERSION}


@pytest.mark.parametrize(
    ("sampled", "logprobs", "versions"),
    [
        ([1, 2], [-1.0], []),
        ([1], [float("nan")], []),
        ([1], [float("-inf")], []),
        ([1], [0.5], []),
        ([-1], [-1.0], []),
        ([2**31], [-1.0], []),
        ([1], [-1.0], [VersionSpan(version="a", start=0, end=2)]),
        ([1, 2], [-1.0, -1.0], [VersionSpan(version="a", start=1, end=2)]),
    ],
)
def test_a_bad_turn_is_refused_and_changes_nothing(
    sampled: list[int], logprobs: list[float], versions: list[VersionSpan]
) -> None:
    buffer = TokenBuffer()
    buffer.insert([1])
    with pytest.raises(ValueError, match=r"."):
        buffer.sample(sampled, logprobs, versions)
    assert len(buffer) == 1 and buffer.turns == 0 and buffer.row().versions == ()


def test_a_turn_needs_a_prompt() -> None:
    with pytest.raises(ValueError, match="prompt"):
        TokenBuffer().sample([1], [-1.0])


def test_the_most_likely_tokens_are_kept_ragged() -> None:
    buffer = TokenBuffer()
    buffer.insert([1])
    buffer.sample([3, 4], [-0.5, -0.25], top=[[(3, -0.5), (9, -1.0)], [(4, -0.25)]])
    buffer.insert([2])
    buffer.sample([5], [-2.0], top=[[(6, -0.1), (5, -2.0)]])
    top = buffer.row().top
    assert top is not None
    assert top.counts.tolist() == [2, 1, 2]
    assert top.token_ids.tolist() == [3, 9, 4, 6, 5]
    assert np.array_equal(top.logprobs, np.array([-0.5, -1, -0.25, -0.1, -2], dtype=np.float32))
    assert [one.dtype.name for one in (top.counts, top.token_ids, top.logprobs)] == [
        "int16",
        "int32",
        "float32",
    ]


def test_all_turns_or_none_have_the_most_likely_tokens() -> None:
    buffer = TokenBuffer()
    buffer.insert([1])
    with pytest.raises(ValueError, match="1 ids with the most likely tokens of 2"):
        buffer.sample([3], [-0.5], top=[[(3, -0.5)], [(4, -0.5)]])
    buffer.sample([3], [-0.5])
    assert buffer.row().top is None
    with pytest.raises(ValueError, match="only some turns"):
        buffer.sample([4], [-0.5], top=[[(4, -0.5)]])
    assert buffer.turns == 1
