"""Tool calls in Qwen's form: a call that is run stands in the turn's text, with whole values."""

import re
from typing import Any

from episode_operator.model.calls import OPEN, THINK_CLOSE, THINK_OPEN
from episode_operator.model.qwen_xml import parse_turn

_PROPERTIES: dict[str, Any] = {
    "command": {"type": "string"},
    "timeout": {"type": "integer"},
    "background": {"type": "boolean"},
    "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "shape": {"type": ["object", "array"]},
    "loose": {},
}
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "terminal",
            "parameters": {"type": "object", "properties": _PROPERTIES},
        },
    }
]


def written(name: str, **arguments: str) -> str:
    """A call as the chat template writes it."""
    parameters = "".join(
        f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def check(text: str, *, reasoning_open: bool) -> None:
    """Any text of a turn."""
    turn = parse_turn(text, tools=TOOLS, reasoning_open=reasoning_open)
    said = text
    if reasoning_open or text.lstrip().startswith(THINK_OPEN):
        said = text.partition(THINK_CLOSE)[2]
    for call in turn.calls:
        assert re.search(rf"<tool_call>\s*<function=\s*{re.escape(call.name)}\s*>", said)
        for key, value in call.arguments.items():
            assert re.search(rf"<parameter=\s*{re.escape(key)}\s*>", said)
            if isinstance(value, str):
                assert re.search(rf">\n?{re.escape(value)}\n?</parameter>", said)
    for bad in turn.malformed:
        assert bad.text.startswith(OPEN) and bad.text in said
    places = [bad.position for bad in turn.malformed]
    count = len(turn.calls) + len(turn.malformed)
    assert places == sorted(set(places)) and all(0 <= place < count for place in places)
    assert count <= said.count(OPEN)


def fuzz(data: bytes) -> None:
    """The first byte says whether the prompt ended inside a thought."""
    check(data[1:].decode(errors="replace"), reasoning_open=data[:1] == b"1")
