"""Tool calls read by the server: taken as they are, and what it left out is noticed."""

import json
from typing import Any

import orjson

from episode_operator.api.reasons import MalformedCallKind
from episode_operator.model.calls import ParsedTurn
from episode_operator.model.errors import ModelBadResponse
from episode_operator.model.parsing import Reader, ToolForm, read_by_server
from tests.fuzz.checks.xml_calls import TOOLS

FORMS = [
    ToolForm(reader=Reader.SERVER, example=example)
    for example in ('{"name": "probe", "parameters": {}}', "[probe()]", "<call>probe\n</call>")
]


def check(content: str, message: dict[str, Any]) -> None:
    """Any text of a turn, and any message that a server made of it."""
    plain = ParsedTurn(reasoning="", content=content.strip(), calls=(), malformed=())
    for form in FORMS:
        try:
            turn = read_by_server(form, message, plain, tools=TOOLS)
        except ModelBadResponse:
            continue
        told = [call["function"] for call in message.get("tool_calls") or []]
        assert [call.name for call in turn.calls] == [
            one["name"] for one in told if _is_object(one.get("arguments"))
        ]
        lost = [bad for bad in turn.malformed if bad.kind is MalformedCallKind.NOT_READ_BY_SERVER]
        assert len(turn.calls) + len(turn.malformed) == len(told) + len(lost) <= len(told) + 1
        assert not lost or "terminal" in content
        if not told:
            assert len(lost) == (form.opened(content, TOOLS) > 0)


def _is_object(given: object) -> bool:
    try:
        return isinstance(orjson.loads(given) if isinstance(given, str) else given, dict)
    except orjson.JSONDecodeError:
        return False


def fuzz(data: bytes) -> None:
    """The first line is the text, as a JSON string or plain; the rest is the server's message."""
    first, _, rest = data.partition(b"\n")
    try:
        message = json.loads(rest)
    except (ValueError, RecursionError):
        return
    if isinstance(message, dict):
        known = {"content": (str, type(None)), "reasoning": (str, type(None))}
        if all(isinstance(message.get(key), kinds) for key, kinds in known.items()):
            check(first.decode(errors="replace"), message)
