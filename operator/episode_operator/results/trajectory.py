"""A conversation as a list of turns, each tool call with its answer: for people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson


@dataclass(slots=True)
class Call:
    """A tool call.

    Attributes:
        arguments: as the model wrote them, each argument by name; the text itself where it is no
            JSON object.
        answer: None while the tool runs.
    """

    id: str
    tool: str
    arguments: dict[str, Any] | str
    answer: str | None = None


@dataclass(slots=True)
class Entry:
    """A message of anyone's, or a turn of the agent with its calls.

    Attributes:
        turn: number of the turn, from 0; None for messages that no agent wrote.
        answers: what tools said that belongs to none of the calls, as of calls that could not be
            read.
    """

    role: str
    text: str
    turn: int | None = None
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)


def entries(messages: Sequence[dict[str, Any]]) -> list[Entry]:
    """The messages in their order, answers of tools with the turn that called them."""
    found: list[Entry] = []
    turns = 0
    for message in messages:
        role, text = str(message["role"]), _text(message.get("content"))
        if role == "assistant":
            calls = list(_calls(message))
            reasoning = message.get("reasoning") or ""
            found.append(Entry(role, text, turns, reasoning=reasoning, calls=calls))
            turns += 1
        elif role == "tool" and found and found[-1].turn is not None:
            _answer(found[-1], message.get("tool_call_id"), text)
        else:
            found.append(Entry(role, text))
    return found


def _calls(message: dict[str, Any]) -> Iterator[Call]:
    for call in message.get("tool_calls") or []:
        function = call["function"]
        yield Call(call["id"], function["name"], _arguments(function["arguments"]))


def _arguments(given: str) -> dict[str, Any] | str:
    try:
        read = orjson.loads(given)
    except orjson.JSONDecodeError:
        return given
    return read if isinstance(read, dict) else given


def _answer(turn: Entry, call_id: Any, text: str) -> None:
    called = next((call for call in turn.calls if call.id == call_id), None)
    if called is None:
        turn.answers.append(text)
    else:
        called.answer = text


def _text(content: Any) -> str:
    """Of a string, or of a list of parts, as some models' messages have it."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return "" if content is None else str(content)
