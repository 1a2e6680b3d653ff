"""What the judge is asked, how its answers are read, and what the votes decide. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from episode_operator.api.distillation import TurnOutcome

SHORTEST_HINT = 11
"""Characters a hint must have to be used."""

INSTRUCTIONS = """\
You review one step of an agent in hindsight. You are given the assistant's response at turn t and \
the state that followed it at turn t+1, with the role that the state came from.

- role user: a reply of the user, such as a correction or a new request.
- role tool: what a tool that the response called has returned. It exists because of the call, so \
the assistant could not have known it before. A tool result without an error usually means that \
the call was right.

Decide whether the next state shows something that would have made the response at turn t better.

Rules for your answer:
- It must hold exactly one decision, \\boxed{1} or \\boxed{-1}.
- With \\boxed{1}, and only then, give a hint of one to three sentences between [HINT_START] and \
[HINT_END]. It must be concrete, and say what to do better in the response at turn t.
- With \\boxed{-1}, give no hint."""

_BOX = re.compile(r"\\boxed\{([^{}]*)\}")
_START, _END = "[HINT_START]", "[HINT_END]"


class Decision(StrEnum):
    """What one vote says; Failed says nothing."""

    YES = "Yes"
    NO = "No"
    FAILED = "Failed"


@dataclass(frozen=True, kw_only=True)
class Vote:
    """One answer of the judge. `hint` only of a yes, `error` only of a failed vote."""

    decision: Decision
    hint: str | None = None
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the votes decide: a hint, or the outcome of a turn that gets none and why."""

    hint: str | None
    outcome: TurnOutcome | None
    message: str


def judge_messages(response: str, next_state: str, role: str) -> list[dict[str, str]]:
    """The chat that asks for one vote."""
    question = (
        f"## Assistant response (turn t)\n{response}\n\n"
        f"## Next state (turn t+1) [role: {role}]\n{next_state}\n\n"
        "Now give your decision and, if it is \\boxed{1}, the hint."
    )
    return [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": question},
    ]


def read_vote(text: str) -> Vote:
    """The vote in an answer: the last box decides, the last whole hint counts."""
    boxes = _BOX.findall(text)
    if not boxes:
        return Vote(decision=Decision.FAILED, error="the answer has no \\boxed{1} or \\boxed{-1}")
    decision = boxes[-1].strip()
    if decision == "-1":
        return Vote(decision=Decision.NO)
    if decision != "1":
        error = f"the answer's last box holds {decision[:40]!r}, not 1 or -1"
        return Vote(decision=Decision.FAILED, error=error)
    return Vote(decision=Decision.YES, hint=_hint(text) or None)


def _hint(text: str) -> str:
    start = text.rfind(_START, 0, max(0, text.rfind(_END)))
    if start < 0:
        return ""
    start += len(_START)
    return text[start : text.index(_END, start)].strip()


def decide(votes: Sequence[Vote]) -> Verdict:
    """More than half of all votes must say yes; then the longest hint is taken.

    Votes that failed count against neither: when they could have made the majority, the judge has
    failed rather than declined.
    """
    yes = [vote for vote in votes if vote.decision is Decision.YES]
    failed = [vote for vote in votes if vote.decision is Decision.FAILED]
    counts = f"{len(yes)} of {len(votes)} votes for a hint"
    if 2 * len(yes) > len(votes):
        hints = [vote.hint for vote in yes if vote.hint and len(vote.hint) >= SHORTEST_HINT]
        if hints:
            return Verdict(hint=max(hints, key=len), outcome=None, message=counts)
        message = f"{counts}, and none with a hint of {SHORTEST_HINT} characters or more"
        return Verdict(hint=None, outcome=TurnOutcome.JUDGE_FAILED, message=message)
    if 2 * (len(yes) + len(failed)) > len(votes):
        message = f"{counts}, {len(failed)} votes failed: {failed[-1].error}"
        return Verdict(hint=None, outcome=TurnOutcome.JUDGE_FAILED, message=message)
    return Verdict(hint=None, outcome=TurnOutcome.JUDGE_DECLINED, message=counts)
