"""Tool calls: a call that is run stands in the turn's text, word for word, outside the thoughts."""

import json
from collections.abc import Iterator
from typing import Any

import orjson

from episode_operator.model.calls import OPEN, THINK_CLOSE, THINK_OPEN
from episode_operator.model.hermes import parse_turn

_SPACE = " \t\n\r"
Call = tuple[str, dict[str, Any]]


def written(text: str) -> Iterator[Call]:
    """Every call that stands behind an opening tag of the text, good or bad its surroundings."""
    start = text.find(OPEN)
    while start >= 0:
        body = text[start + len(OPEN) :].lstrip()
        found = _call(_object(body)[0])
        if found is not None:
            yield found
        start = text.find(OPEN, start + 1)


def _object(text: str) -> tuple[dict[str, Any] | None, str]:
    """The JSON object that the text begins with, and what follows it.

    Its end is found by counting braces. Raw control characters may stand in its strings.
    """
    depth, in_string, escaped = 0, False, False
    strict: list[str] = []
    for index, character in enumerate(text):
        control = character < " "
        if control and escaped:
            break
        strict.append(f"\\u{ord(character):04x}" if control and in_string else character)
        if in_string:
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            in_string = True
        else:
            depth += (character in "{[") - (character in "}]")
        if depth == 0 and not in_string:
            return _loads("".join(strict)), text[index + 1 :]
    return None, ""


def _loads(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _call(value: dict[str, Any] | None) -> Call | None:
    if value is None:
        return None
    name, arguments = value.get("name"), value.get("arguments", {})
    if isinstance(arguments, str):
        arguments, rest = _object(arguments.strip(_SPACE))
        arguments = None if rest else arguments
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        return None
    return name, arguments


def check(text: str, *, reasoning_open: bool) -> None:
    """Any text of a turn."""
    turn = parse_turn(text, reasoning_open=reasoning_open)
    said = text
    if reasoning_open or text.lstrip().startswith(THINK_OPEN):
        said = text.partition(THINK_CLOSE)[2]
    candidates = written(said)
    for call in turn.calls:
        assert (call.name, call.arguments) in candidates, f"{call} was never written in {text!r}"
        assert orjson.loads(orjson.dumps(call.arguments)) == call.arguments
    for bad in turn.malformed:
        assert bad.text.startswith(OPEN) and bad.text in said
    assert len(turn.calls) + len(turn.malformed) <= said.count(OPEN)
    assert turn.calls or turn.malformed or turn.content == said.strip()
    orjson.dumps([turn.reasoning, turn.content, *(bad.problem for bad in turn.malformed)])


def fuzz(data: bytes) -> None:
    """The first byte says whether the prompt ended inside a thought."""
    check(data[1:].decode(errors="replace"), reasoning_open=data[:1] == b"1")
