"""What is read out of a turn's text, whatever form its tool calls have."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from episode_operator.api.reasons import MalformedCallKind

OPEN, CLOSE = "<tool_call>", "</tool_call>"
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """One call the model wrote: the tool's name and its arguments."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class MalformedCall:
    """A piece that was meant as a call and cannot be run.

    `problem` says what is wrong and how it is written right, worded for the model; `position` is
    its place among all calls of the turn, good and bad, from 0.
    """

    text: str
    kind: MalformedCallKind
    problem: str
    position: int


@dataclass(frozen=True, kw_only=True)
class ParsedTurn:
    """What a turn says: reasoning, text outside calls, and calls, good and bad, in order.

    `cut_calls` counts the calls of a turn that was cut off, complete or not: none of them is run.
    """

    reasoning: str
    content: str
    calls: tuple[ToolCall, ...]
    malformed: tuple[MalformedCall, ...]
    cut_calls: int = 0


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Why a piece is no call, before its place among the turn's calls is known."""

    kind: MalformedCallKind
    problem: str


ReadCall = Callable[[str, int], tuple[ToolCall | Fault, int]]
"""From a text and the position of an opening tag: the call there, or why it is none, and its end.

The end of a Fault is the position up to which the piece was understood.
"""


def split_reasoning(text: str, *, reasoning_open: bool = False) -> tuple[str, str]:
    """(reasoning, rest). Only reasoning at the start of a turn counts as such."""
    body = text
    if not reasoning_open:
        if not text.lstrip().startswith(THINK_OPEN):
            return "", text
        body = text.lstrip()[len(THINK_OPEN) :]
    inside, closed, rest = body.partition(THINK_CLOSE)
    return (inside.strip(), rest) if closed else (body.strip(), "")


def read_tagged(text: str, read: ReadCall, *, form: str, reasoning_open: bool) -> ParsedTurn:
    """Read a turn whose calls stand between OPEN and CLOSE. `form` shows the model how.

    Calls inside the reasoning are thoughts and not calls. Reasoning that is never closed hides all
    that follows: nothing of it is run.
    """
    reasoning, rest = split_reasoning(text, reasoning_open=reasoning_open)
    content: list[str] = []
    calls: list[ToolCall] = []
    malformed: list[MalformedCall] = []
    position = 0
    while (start := rest.find(OPEN, position)) >= 0:
        content.append(rest[position:start])
        found, position = read(rest, start)
        if isinstance(found, ToolCall):
            calls.append(found)
            continue
        position = _end_of_bad_call(rest, position, read, balanced=bool(malformed))
        malformed.append(
            MalformedCall(
                text=rest[start:position],
                kind=found.kind,
                problem=f"{found.problem}. Write it as {form}",
                position=len(calls) + len(malformed),
            )
        )
    content.append(rest[position:])
    return ParsedTurn(
        reasoning=reasoning,
        content="".join(content).strip(),
        calls=tuple(calls),
        malformed=tuple(malformed),
    )


def _end_of_bad_call(text: str, position: int, read: ReadCall, *, balanced: bool) -> int:
    """Where a bad call ends that was understood up to `position`, so that nothing in it is run.

    It may quote other calls, tags and all. So it ends behind its own closing tag, counting opened
    ones; a closing tag further on that belongs to no call shows that it goes on until there.
    Without any it has no end: the rest of the turn is part of it. Good calls behind its end stay.

    `balanced`: it is known that no such tag follows. That holds behind the end of any bad call.
    """
    end, depth, at = None, 1, position
    while True:
        opening, closing = text.find(OPEN, at), text.find(CLOSE, at)
        if closing < 0 or (balanced and end is not None):
            return len(text) if end is None else end
        if 0 <= opening < closing:
            found, at = read(text, opening)
            whole = isinstance(found, ToolCall) and text.startswith(CLOSE, at - len(CLOSE))
            depth += not whole
            continue
        at = closing + len(CLOSE)
        if depth == 0 or (depth == 1 and end is None):
            end = at
        depth = max(0, depth - 1)
