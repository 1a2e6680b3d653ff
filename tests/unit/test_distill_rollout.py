"""A recorded row as turns: spans, next states, and where a hint goes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episode_operator.api.distillation import HintPlacement
from episode_operator.distill import Rollout
from episode_operator.distill.prompts import HEADING, with_hint
from episode_operator.distill.rollout import next_state_text
from episode_operator.model.errors import RenderMismatch

SYSTEM = {"role": "system", "content": "Be good."}
USER = {"role": "user", "content": "Do it."}
ANSWER = {"role": "assistant", "content": ""}
TOOL = {"role": "tool", "content": "a.txt"}
MESSAGES = [SYSTEM, USER, ANSWER, TOOL, TOOL, ANSWER, USER, ANSWER]


def rollout(lengths: list[tuple[int, int]], messages: list[dict[str, Any]]) -> Rollout:
    """Turns of so many inserted and sampled ids."""
    mask = [flag for one in lengths for flag in [False] * one[0] + [True] * one[1]]
    turn = [at for at, one in enumerate(lengths) for _ in range(sum(one))]
    return Rollout(
        tokens=np.arange(len(mask), dtype=np.int32),
        mask=np.array(mask, dtype=np.bool_),
        turn=np.array(turn, dtype=np.int16),
        logprobs=np.zeros(len(mask), dtype=np.float32),
        messages=messages,
    )


def test_turns_and_their_messages() -> None:
    row = rollout([(5, 2), (3, 1), (2, 4)], MESSAGES)
    assert row.turns == 3
    assert [row.inserted(at) for at in range(3)] == [range(5), range(7, 10), range(11, 13)]
    assert [row.sampled(at) for at in range(3)] == [range(5, 7), range(10, 11), range(13, 17)]
    assert [row.prompt_messages(at) for at in range(3)] == [[SYSTEM, USER], [TOOL, TOOL], [USER]]
    assert [row.next_state(at) for at in range(3)] == [[TOOL, TOOL], [USER], []]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), max_size=6))
def test_the_blocks_are_the_row(lengths: list[tuple[int, int]]) -> None:
    row = rollout(lengths, [USER, *[ANSWER, TOOL] * len(lengths)])
    blocks = [
        position for at in range(row.turns) for position in (*row.inserted(at), *row.sampled(at))
    ]
    assert blocks == list(range(len(row.tokens)))
    assert row.turns == len(lengths)


def test_messages_after_the_last_turn_are_its_next_state() -> None:
    row = rollout([(5, 2)], [USER, ANSWER, TOOL, USER])
    assert row.next_state(0) == [TOOL, USER]


def test_the_students_top_tokens_of_a_turn() -> None:
    row = rollout([(5, 2), (3, 1)], MESSAGES[:6])
    recorded = replace(
        row,
        student_topk_counts=np.array([2, 0, 3], dtype=np.int16),
        student_topk_token_ids=np.array([7, 8, 1, 2, 3], dtype=np.int32),
    )
    assert recorded.student_topk(0) == [[7, 8], []]
    assert recorded.student_topk(1) == [[1, 2, 3]]
    with pytest.raises(ValueError, match="not recorded"):
        row.student_topk(0)


@pytest.mark.parametrize(
    "change",
    [
        {"logprobs": np.zeros(3, dtype=np.float32)},
        {"messages": MESSAGES[:5]},
        {"turn": np.array([1, 1, 0, 0, 0, 1, 1, 1, 1, 1], dtype=np.int16)},
        {"mask": np.array([1, 0, 0, 0, 0, 1, 0, 0, 0, 1], dtype=np.bool_)},
        {"mask": np.array([0, 0, 0, 1, 0, 1, 0, 0, 0, 1], dtype=np.bool_)},
        {"student_topk_counts": np.array([1, 1, 1], dtype=np.int16)},
        {
            "student_topk_counts": np.array([1, 1], dtype=np.int16),
            "student_topk_token_ids": np.array([1, 1], dtype=np.int32),
        },
        {
            "student_topk_counts": np.array([1, 1, 1], dtype=np.int16),
            "student_topk_token_ids": np.array([1, 1], dtype=np.int32),
        },
    ],
)
def test_what_does_not_belong_together_is_refused(change: dict[str, Any]) -> None:
    row = rollout([(4, 2), (3, 1)], MESSAGES[:6])
    with pytest.raises(ValueError, match=r"turn|lengths|top-k"):
        replace(row, **change)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], None),
        ([{"role": "tool", "content": " \n"}], None),
        ([{"role": "tool"}, {"role": "user", "content": None}], None),
        ([TOOL], ("a.txt", "tool")),
        ([TOOL, TOOL, USER], ("a.txt\n\na.txt\n\nDo it.", "tool and user")),
        ([{"role": "tool", "content": "é" * 7}], ("é" * 6 + "\n[cut]", "tool")),
    ],
)
def test_the_next_state_is_text_cut_message_by_message(
    messages: list[dict[str, Any]], expected: tuple[str, str] | None
) -> None:
    assert next_state_text(messages, limit=6) == expected


LAST, BEFORE = HintPlacement.LAST_USER_MESSAGE, HintPlacement.BEFORE_TURN
HINTED = {"role": "user", "content": f"Do it.\n\n{HEADING}\nLook."}
OWN = {"role": "user", "content": f"{HEADING}\nLook."}


@pytest.mark.parametrize(
    ("messages", "placement", "expected"),
    [
        ([SYSTEM, USER], LAST, [SYSTEM, HINTED]),
        ([SYSTEM, USER], BEFORE, [SYSTEM, HINTED]),
        ([USER, USER], LAST, [USER, HINTED]),
        ([USER, TOOL], LAST, [HINTED, TOOL]),
        ([USER, TOOL], BEFORE, [USER, TOOL, OWN]),
        ([TOOL], BEFORE, [TOOL, OWN]),
        ([SYSTEM], BEFORE, [SYSTEM, OWN]),
        ([TOOL, USER], BEFORE, [TOOL, HINTED]),
    ],
)
def test_where_the_hint_goes(
    messages: list[dict[str, Any]], placement: HintPlacement, expected: list[dict[str, Any]]
) -> None:
    before = [dict(message) for message in messages]
    assert with_hint(messages, "Look.", placement) == expected
    assert messages == before


def test_a_user_message_without_text_takes_no_hint() -> None:
    with pytest.raises(RenderMismatch, match="no text"):
        with_hint([{"role": "user", "content": [{"type": "image"}]}], "Look.", LAST)
