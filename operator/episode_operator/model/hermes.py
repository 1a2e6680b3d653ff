"""Tool calls in the Hermes form: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

Read by a JSON decoder from each opening tag, so that a tag inside an argument ends nothing, one bad
call does not spoil the good ones beside it, and arguments stay exactly as the model wrote them.
"""

import json
import math
from dataclasses import dataclass
from typing import Any

import orjson

OPEN, CLOSE = "<tool_call>", "</tool_call>"
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} is beyond every number")
    return value


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse, parse_float=_finite)
"""Not strict: models write raw newlines and tabs inside JSON strings."""


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """One call the model wrote: the tool's name and its arguments."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class MalformedCall:
    """A piece that was meant as a call and cannot be run; `problem` is worded for the model."""

    text: str
    problem: str


@dataclass(frozen=True, kw_only=True)
class ParsedTurn:
    """What a turn says: reasoning, text outside calls, and calls, good and bad, in order."""

    reasoning: str
    content: str
    calls: tuple[ToolCall, ...]
    malformed: tuple[MalformedCall, ...]


def parse_turn(text: str, *, reasoning_open: bool = False) -> ParsedTurn:
    """Read a turn's text. `reasoning_open`: the prompt already ended inside `<think>`.

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
        found, position = _call_at(rest, start)
        if isinstance(found, ToolCall):
            calls.append(found)
        else:
            malformed.append(found)
    content.append(rest[position:])
    return ParsedTurn(
        reasoning=reasoning,
        content="".join(content).strip(),
        calls=tuple(calls),
        malformed=tuple(malformed),
    )


def split_reasoning(text: str, *, reasoning_open: bool = False) -> tuple[str, str]:
    """(reasoning, rest). Only reasoning at the start of a turn counts as such."""
    body = text
    if not reasoning_open:
        if not text.lstrip().startswith(THINK_OPEN):
            return "", text
        body = text.lstrip()[len(THINK_OPEN) :]
    inside, closed, rest = body.partition(THINK_CLOSE)
    return (inside.strip(), rest) if closed else (body.strip(), "")


def _call_at(text: str, start: int) -> tuple[ToolCall | MalformedCall, int]:
    """The call whose opening tag is at `start`, and where to read on."""
    body = start + len(OPEN)
    while body < len(text) and text[body].isspace():
        body += 1
    try:
        value, end = _DECODER.raw_decode(text, body)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of 5,000 digits
        stop = _end_of_bad_call(text, body)
        return _bad(text[start:stop], f"it is not valid JSON ({_where(error, text, body)})"), stop
    closing = end
    while closing < len(text) and text[closing].isspace():
        closing += 1
    if text.startswith(CLOSE, closing):
        stop = closing + len(CLOSE)
    else:
        stop = _end_of_bad_call(text, end)
        between = text[end:stop].removesuffix(CLOSE).strip()
        if between:
            problem = f"more text follows its JSON object: {between[:80]!r}"
            return _bad(text[start:stop], problem), stop
        # Complete JSON without a closing tag, at the end of the turn or before the next call: the
        # model's intent is plain.
    return _checked(value, text[start:stop]), stop


def _end_of_bad_call(text: str, position: int) -> int:
    """Behind the next closing tag, but not past the next opening one."""
    close, following = text.find(CLOSE, position), text.find(OPEN, position)
    if close >= 0 and (following < 0 or close < following):
        return close + len(CLOSE)
    return following if following >= 0 else len(text)


def _checked(value: object, text: str) -> ToolCall | MalformedCall:
    if not isinstance(value, dict):
        return _bad(text, 'it must be an object with "name" and "arguments"')
    name = value.get("name")
    if not isinstance(name, str) or not name:
        return _bad(text, '"name" must be the name of a tool')
    arguments = value.get("arguments", {})
    if isinstance(arguments, str):  # a known habit: the arguments encoded a second time
        try:
            arguments = _DECODER.decode(arguments)
        except (ValueError, RecursionError):
            return _bad(text, '"arguments" must be an object, not text')
    if not isinstance(arguments, dict):
        return _bad(text, '"arguments" must be an object')
    try:
        orjson.dumps([name, arguments])
    except TypeError:
        return _bad(text, "it has a lone surrogate, a number beyond 64 bits, or too deep a nesting")
    return ToolCall(name=name, arguments=arguments)


def _bad(text: str, problem: str) -> MalformedCall:
    return MalformedCall(
        text=text,
        problem=f"This tool call was not run: {problem}. Write it as "
        f'{OPEN}\n{{"name": <tool>, "arguments": <object>}}\n{CLOSE}',
    )


def _where(error: Exception, text: str, body: int) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return "nested too deeply, or a number that is none, too large or too long"
    near = text[error.pos : error.pos + 20]
    return f"{error.msg} at character {error.pos - body}, near {near!r}"
