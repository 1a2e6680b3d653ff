"""Tool calls in the Hermes form: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

Read by a JSON decoder from each opening tag, so that a tag inside an argument ends nothing, one bad
call does not spoil the good ones beside it, and arguments stay exactly as the model wrote them.
"""

import json
import math

import orjson

from episode_operator.api.reasons import MalformedCallKind
from episode_operator.model.calls import (
    CLOSE,
    OPEN,
    Fault,
    ParsedTurn,
    ToolCall,
    read_tagged,
)

FORM = f'{OPEN}\n{{"name": <tool>, "arguments": <object>}}\n{CLOSE}'


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} is beyond every number")
    return value


DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse, parse_float=_finite)
"""Not strict: models write raw newlines and tabs inside JSON strings."""


def parse_turn(text: str, *, reasoning_open: bool = False) -> ParsedTurn:
    """Read a turn's text. `reasoning_open`: the prompt already ended inside `<think>`."""
    return read_tagged(text, _call_at, form=FORM, reasoning_open=reasoning_open)


def _call_at(text: str, start: int) -> tuple[ToolCall | Fault, int]:
    body = _skip_space(text, start + len(OPEN))
    try:
        value, end = DECODER.raw_decode(text, body)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of 5,000 digits
        where = _where(error, text, body)
        return Fault(
            kind=MalformedCallKind.INVALID_JSON, problem=f"it is not valid JSON ({where})"
        ), body
    closing = _skip_space(text, end)
    if text.startswith(CLOSE, closing):
        closing += len(CLOSE)
    elif closing < len(text) and not text.startswith(OPEN, closing):
        return Fault(
            kind=MalformedCallKind.TRAILING_TEXT,
            problem=f"more text follows its JSON object: {text[closing : closing + 80]!r}",
        ), end
    # Complete JSON without a closing tag, at the end of the turn or before the next call: the
    # model's intent is plain.
    found = _checked(value)
    return found, closing if isinstance(found, ToolCall) else end


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _checked(value: object) -> ToolCall | Fault:
    if not isinstance(value, dict):
        return Fault(
            kind=MalformedCallKind.NOT_AN_OBJECT,
            problem='it must be an object with "name" and "arguments"',
        )
    name = value.get("name")
    if not isinstance(name, str) or not name:
        return Fault(
            kind=MalformedCallKind.MISSING_NAME, problem='"name" must be the name of a tool'
        )
    return checked_arguments(name, value.get("arguments", {}))


def checked_arguments(name: str, arguments: object) -> ToolCall | Fault:
    """A call with these arguments, if they are an object that a turn's record can hold."""
    if isinstance(arguments, str):  # a known habit: the arguments encoded a second time
        try:
            arguments = DECODER.decode(arguments)
        except (ValueError, RecursionError):
            return Fault(
                kind=MalformedCallKind.BAD_ARGUMENTS,
                problem='"arguments" must be an object, not text',
            )
    if not isinstance(arguments, dict):
        return Fault(kind=MalformedCallKind.BAD_ARGUMENTS, problem='"arguments" must be an object')
    try:
        orjson.dumps({"calls": [{"name": name, "arguments": arguments}]})  # as a turn's record
    except TypeError:
        return Fault(
            kind=MalformedCallKind.BAD_ARGUMENTS,
            problem="it has a lone surrogate, a number beyond 64 bits, or too deep a nesting",
        )
    return ToolCall(name=name, arguments=arguments)


def _where(error: Exception, text: str, body: int) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return "nested too deeply, or a number that is none, too large or too long"
    near = text[error.pos : error.pos + 20]
    return f"{error.msg} at character {error.pos - body}, near {near!r}"
