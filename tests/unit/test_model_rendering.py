"""Cutting out of a rendering what follows a turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episode_operator.model.errors import RenderMismatch
from episode_operator.model.rendering import after_turn, common_suffix

END, NEWLINE, OTHER_END, ROLE = 2, 10, 3, 4
SUFFIX = [END, NEWLINE, 70, 71, END, NEWLINE, 80]


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (END, [NEWLINE, 70, 71, END, NEWLINE, 80]),
        (None, SUFFIX),
        (OTHER_END, SUFFIX),
    ],
    ids=["sampled its end", "cut off", "sampled an end the template does not know"],
)
def test_the_template_tail_follows_a_turn(last: int | None, expected: list[int]) -> None:
    assert after_turn(SUFFIX, last=last, end_token=END) == expected


def test_a_turn_that_ended_with_the_next_role() -> None:
    suffix = [ROLE, 70, 71, 80]
    assert after_turn(suffix, last=ROLE, end_token=None) == [70, 71, 80]
    assert after_turn(suffix, last=None, end_token=None) == suffix


def test_a_template_without_its_end_token_is_refused() -> None:
    with pytest.raises(RenderMismatch):
        after_turn([70, 71], last=None, end_token=END)


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_common_suffix(first: list[int], second: list[int], tail: list[int]) -> None:
    found = common_suffix(first + tail, second + tail)
    assert found[len(found) - len(tail) :] == tail
    assert (first + tail)[len(first + tail) - len(found) :] == found
    longer = len(found) + 1
    if longer <= min(len(first + tail), len(second + tail)):
        assert (first + tail)[-longer:] != (second + tail)[-longer:]
