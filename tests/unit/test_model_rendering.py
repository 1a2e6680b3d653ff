"""Cutting out of a rendering what follows a turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episode_operator.model.errors import RenderMismatch
from episode_operator.model.rendering import after_turn, common_suffix

END, NEWLINE, OTHER_END, ROLE = 2, 10, 3, 4
CLOSING = [END, NEWLINE]
SUFFIX = [*CLOSING, 70, 71, END, NEWLINE, 80]


@pytest.mark.parametrize(
    ("last", "expected"),
    [(END, SUFFIX[1:]), (None, SUFFIX), (OTHER_END, SUFFIX[1:])],
    ids=["sampled its end", "cut off", "sampled another end in its place"],
)
def test_the_template_tail_follows_a_turn(last: int | None, expected: list[int]) -> None:
    assert after_turn(SUFFIX, closing=CLOSING, last=last, end_token=END) == expected


def test_the_calls_of_the_placeholder_are_cut_off() -> None:
    suffix, closing = [60, 61, *SUFFIX], [60, 61, *CLOSING]
    assert after_turn(suffix, closing=closing, last=END, end_token=END) == SUFFIX[1:]
    assert after_turn(suffix, closing=closing, last=None, end_token=END) == SUFFIX


def test_a_turn_that_ended_with_the_next_role() -> None:
    suffix = [ROLE, 70, 71, 80]
    assert after_turn(suffix, closing=[], last=ROLE, end_token=None) == [70, 71, 80]
    assert after_turn(suffix, closing=[], last=None, end_token=None) == suffix


def test_a_role_token_further_on_cuts_no_message_off() -> None:
    suffix = [ROLE, 70, OTHER_END, 71, 80]
    assert after_turn(suffix, closing=[], last=OTHER_END, end_token=None) == suffix


@pytest.mark.parametrize("last", [END, None])
def test_an_end_token_of_a_message_is_not_that_of_the_turn(last: int | None) -> None:
    with pytest.raises(RenderMismatch):
        after_turn([70, 71, END, 80], closing=[70], last=last, end_token=END)


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_common_suffix(first: list[int], second: list[int], tail: list[int]) -> None:
    found = common_suffix(first + tail, second + tail)
    assert found[len(found) - len(tail) :] == tail
    assert (first + tail)[len(first + tail) - len(found) :] == found
    longer = len(found) + 1
    if longer <= min(len(first + tail), len(second + tail)):
        assert (first + tail)[-longer:] != (second + tail)[-longer:]
