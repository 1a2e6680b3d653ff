"""Tool calls in the form of Qwen3 Coder and Qwen3.5:

    <tool_call>
    <function=terminal>
    <parameter=command>
    ls
    </parameter>
    </function>
    </tool_call>

Values stand there as they are, nothing is escaped. So a value ends at the closing tag that fits:
one behind which the next parameter or the end of the function follows, counting parameters opened
inside. Where closing tags are left over behind a call, a value was cut somewhere else than the
model meant it, and the call is not run.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from episode_operator.api.reasons import MalformedCallKind
from episode_operator.model.calls import CLOSE, OPEN, Fault, ParsedTurn, ToolCall, read_tagged
from episode_operator.model.hermes import DECODER, checked_arguments

FORM = f"{OPEN}\n<function=TOOL>\n<parameter=NAME>\nvalue\n</parameter>\n</function>\n{CLOSE}"

_FUNCTION = re.compile(r"\s*<function=([^<>\n]+)>")
_FUNCTION_END = re.compile(r"\s*</function>\s*")
_PARAMETER = re.compile(r"\s*<parameter=([^<>\n]+)>\n?")
_PARAMETER_TAG = re.compile(r"<(/?)parameter(?:=[^<>\n]+)?>")
_FOLLOWS_VALUE = re.compile(r"\s*(?:<parameter=|</function>)")
_LEFT_OVER = re.compile(
    r"""
    (?:(?!<tool_call>).)*? </(?:parameter|function|tool_call)>  # before the next call
    | (?:(?!<tool_call>\s*<function=).)*? </(?:parameter|function)>  # or behind what is none
    """,
    re.DOTALL | re.VERBOSE,
)

Types = Mapping[str, Mapping[str, frozenset[str]]]
"""The JSON types of each tool's parameters, by their names."""


def parse_turn(
    text: str, *, tools: Sequence[Mapping[str, Any]], reasoning_open: bool = False
) -> ParsedTurn:
    """Read a turn's text. `tools` say which values are text and which are JSON."""
    read = partial(_call_at, types=_types(tools))
    return read_tagged(text, read, form=FORM, reasoning_open=reasoning_open)


def _call_at(text: str, start: int, *, types: Types) -> tuple[ToolCall | Fault, int]:
    body = start + len(OPEN)
    function = _FUNCTION.match(text, body)
    if function is None:
        problem = "<function=TOOL> must follow <tool_call>"
        return Fault(kind=MalformedCallKind.WRONG_FORM, problem=problem), body
    name, at = function[1].strip(), function.end()
    arguments: dict[str, Any] = {}
    known = types.get(name, {})
    while parameter := _PARAMETER.match(text, at):
        key, end = parameter[1].strip(), _end_of_value(text, parameter.end())
        if end is None or key in arguments:
            problem = (
                f"the value of {key!r} has no end" if end is None else f"{key!r} is there twice"
            )
            return Fault(kind=MalformedCallKind.WRONG_FORM, problem=problem), body
        value = text[parameter.end() : end].removesuffix("\n")
        arguments[key] = _typed(value, known.get(key, frozenset()))
        at = end + len("</parameter>")
    finish = _FUNCTION_END.match(text, at)
    if finish is None:
        problem = f"</function> or <parameter=NAME> must follow, not {text[at : at + 40].strip()!r}"
        return Fault(kind=MalformedCallKind.WRONG_FORM, problem=problem), body
    at = finish.end()
    if text.startswith(CLOSE, at):
        at += len(CLOSE)
    elif at < len(text):
        problem = f"</tool_call> must follow </function>, not {text[at : at + 80]!r}"
        return Fault(kind=MalformedCallKind.TRAILING_TEXT, problem=problem), body
    if _LEFT_OVER.match(text, at):
        problem = "closing tags are left over behind it, so its values cannot be told apart"
        return Fault(kind=MalformedCallKind.TRAILING_TEXT, problem=problem), body
    found = checked_arguments(name, arguments)
    return found, at if isinstance(found, ToolCall) else finish.end()


def _end_of_value(text: str, start: int) -> int | None:
    depth = 0
    for tag in _PARAMETER_TAG.finditer(text, start):
        if not tag[1]:
            depth += 1
        elif depth:
            depth -= 1
        elif _FOLLOWS_VALUE.match(text, tag.end()):
            return tag.start()
    return None


def _typed(value: str, types: frozenset[str]) -> Any:
    """The value as JSON, unless its parameter can be text, or it is none: then as it is."""
    if not types or "string" in types:
        return value
    try:
        read = DECODER.decode(value.strip())
    except (ValueError, RecursionError):
        lowered = value.strip().lower()
        return lowered == "true" if lowered in ("true", "false") and "boolean" in types else value
    return read


def _types(tools: Sequence[Mapping[str, Any]]) -> Types:
    found = {}
    for tool in tools:
        function = tool["function"]
        properties = (function.get("parameters") or {}).get("properties") or {}
        found[function["name"]] = {
            name: frozenset(_types_of(schema)) for name, schema in properties.items()
        }
    return found


def _types_of(schema: Mapping[str, Any]) -> Iterator[str]:
    several = schema.get("type", ())
    yield from (several,) if isinstance(several, str) else several
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _types_of(part)
