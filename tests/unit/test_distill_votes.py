"""How a judge's answers are read, and what the votes decide."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episode_operator.api.distillation import TurnOutcome
from episode_operator.distill.votes import Decision, Vote, decide, judge_messages, read_vote

HINT = "Read the file first."
YES = Vote(decision=Decision.YES, hint=HINT)
NO = Vote(decision=Decision.NO)
FAILED = Vote(decision=Decision.FAILED, error="no answer")
PIECES = [
    r"\boxed{1}",
    r"\boxed{-1}",
    r"\boxed{2}",
    r"\boxed{",
    "[HINT_START]",
    "[HINT_END]",
    HINT,
    "}",
    "\n",
]


@pytest.mark.parametrize(
    ("text", "decision", "hint"),
    [
        (rf"\boxed{{1}} [HINT_START]{HINT}[HINT_END]", Decision.YES, HINT),
        (f"[HINT_START]\n {HINT}\n[HINT_END]\n\\boxed{{ 1 }}", Decision.YES, HINT),
        (r"\boxed{1}", Decision.YES, None),
        (r"\boxed{1} [HINT_START][HINT_END]", Decision.YES, None),
        (rf"\boxed{{1}} [HINT_START]{HINT}", Decision.YES, None),
        (rf"\boxed{{1}} [HINT_END]{HINT}[HINT_START]", Decision.YES, None),
        (r"\boxed{1} [HINT_START]a[HINT_END] [HINT_START]b[HINT_END]", Decision.YES, "b"),
        (r"\boxed{1} [HINT_START]a[HINT_END] or so [HINT_END]", Decision.YES, "a"),
        (r"\boxed{1} [HINT_START]a [HINT_START]b[HINT_END] [HINT_START]", Decision.YES, "b"),
        (r"\boxed{-1}", Decision.NO, None),
        (rf"\boxed{{1}} no: \boxed{{-1}} [HINT_START]{HINT}[HINT_END]", Decision.NO, None),
        (rf"\boxed{{-1}} no: \boxed{{1}} [HINT_START]{HINT}[HINT_END]", Decision.YES, HINT),
        (r"\boxed{1} no: \boxed{0}", Decision.FAILED, None),
        (r"\boxed{1.0}", Decision.FAILED, None),
        (r"\boxed{}", Decision.FAILED, None),
        ("boxed{1}", Decision.FAILED, None),
        ("", Decision.FAILED, None),
    ],
)
def test_the_last_box_decides_and_the_last_whole_hint_counts(
    text: str, decision: Decision, hint: str | None
) -> None:
    vote = read_vote(text)
    assert (vote.decision, vote.hint) == (decision, hint)
    assert (vote.error is not None) is (decision is Decision.FAILED)


@settings(deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=20))).map("".join))
def test_every_answer_is_read(text: str) -> None:
    vote = read_vote(text)
    if vote.hint is not None:
        assert vote.decision is Decision.YES
        assert vote.hint == vote.hint.strip() != ""
        assert f"[HINT_START]{vote.hint}[HINT_END]" in text.replace("\n", "") or vote.hint in text
        assert "[HINT_START]" not in vote.hint
        assert "[HINT_END]" not in vote.hint
    assert (vote.error is not None) is (vote.decision is Decision.FAILED)
    assert vote.decision is not Decision.YES or r"\boxed{" in text


def test_a_long_answer_of_opening_tags_is_read_at_once() -> None:
    text = "[HINT_START]" * 100_000 + r"\boxed{" * 100_000 + r"\boxed{1}"
    assert read_vote(text).hint is None


_TABLE = {
    # votes: (yes, no, failed) -> outcome; None is a hint
    (1, 0, 0): None,
    (0, 1, 0): TurnOutcome.JUDGE_DECLINED,
    (0, 0, 1): TurnOutcome.JUDGE_FAILED,
    (2, 0, 0): None,
    (1, 1, 0): TurnOutcome.JUDGE_DECLINED,
    (1, 0, 1): TurnOutcome.JUDGE_FAILED,
    (0, 2, 0): TurnOutcome.JUDGE_DECLINED,
    (0, 1, 1): TurnOutcome.JUDGE_DECLINED,
    (0, 0, 2): TurnOutcome.JUDGE_FAILED,
    (3, 0, 0): None,
    (2, 1, 0): None,
    (2, 0, 1): None,
    (1, 2, 0): TurnOutcome.JUDGE_DECLINED,
    (1, 1, 1): TurnOutcome.JUDGE_FAILED,
    (1, 0, 2): TurnOutcome.JUDGE_FAILED,
    (0, 3, 0): TurnOutcome.JUDGE_DECLINED,
    (0, 2, 1): TurnOutcome.JUDGE_DECLINED,
    (0, 1, 2): TurnOutcome.JUDGE_FAILED,
    (0, 0, 3): TurnOutcome.JUDGE_FAILED,
}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_more_than_half_of_all_votes_must_say_yes(count: int) -> None:
    for votes in product([YES, NO, FAILED], repeat=count):
        counts = Counter(vote.decision for vote in votes)
        key = (counts[Decision.YES], counts[Decision.NO], counts[Decision.FAILED])
        verdict = decide(votes)
        assert verdict.outcome == _TABLE[key], key
        assert verdict.hint == (HINT if _TABLE[key] is None else None)


@pytest.mark.parametrize(
    ("hints", "chosen"),
    [
        (["short", "Read the file.", "Read the whole file."], "Read the whole file."),
        (["Read the file.", "Take that one"], "Read the file."),
        (["eleven char", "ten chars!"], "eleven char"),
        (["ten chars!", None, "ten chars?"], None),
    ],
)
def test_the_longest_hint_of_more_than_ten_characters_is_taken(
    hints: list[str | None], chosen: str | None
) -> None:
    verdict = decide([Vote(decision=Decision.YES, hint=hint) for hint in hints])
    assert verdict.hint == chosen
    assert verdict.outcome == (None if chosen else TurnOutcome.JUDGE_FAILED)


def test_the_judge_is_told_the_role_of_the_next_state() -> None:
    system, user = judge_messages("I ran it.", "No such file", "tool")
    assert (system["role"], user["role"]) == ("system", "user")
    assert "I ran it." in user["content"]
    assert "[role: tool]\nNo such file" in user["content"]
    for needed in (r"\boxed{1}", r"\boxed{-1}", "[HINT_START]", "[HINT_END]"):
        assert needed in system["content"]
