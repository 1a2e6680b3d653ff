"""The rows of a table of rollouts, as text that any viewer can show."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trainer_bridge.charts.base import ChartSettings
from trainer_bridge.training import TrainingGroup

COLUMNS: Final = ("task", "text", "score", "turns", "verdict")

TEXT_LIMIT: Final = 20_000
"""Characters of a conversation that are shown."""

_CONTROLS = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"
}

Row = tuple[str, str, float, int, str]


def rows(groups: Sequence[TrainingGroup], settings: ChartSettings) -> list[Row]:
    """The rows to show of groups, oldest first: the first members of the newest groups."""
    kept = groups[max(0, len(groups) - settings.num_rollouts_to_keep) :]
    most = settings.num_rollouts_per_group_for_logging
    return [
        (
            shown(group.task),
            shown(conversation_text(record.messages or [])),
            score,
            record.counts.turns,
            str(record.verdict),
        )
        for group in kept
        for record, score in list(zip(group.members, group.scores, strict=True))[
            : None if most < 0 else most
        ]
    ]


def conversation_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """A conversation as one text, each message under its role."""
    return "\n".join(line for message in messages for line in _lines(message))


def shown(text: str, *, limit: int = TEXT_LIMIT) -> str:
    """The text, its middle left out beyond `limit` characters.

    Control characters and lone surrogates, which viewers obey or choke on, are written as escapes.
    """
    if len(text) > limit:
        left_out = len(text) - limit
        head = limit // 2
        tail = text[len(text) - (limit - head) :]
        text = f"{text[:head]}\n[{left_out} characters left out]\n{tail}"
    return text.encode("utf-8", "backslashreplace").decode().translate(_CONTROLS)


def _lines(message: Mapping[str, Any]) -> Iterator[str]:
    name = message.get("name")
    yield f"[{message['role']}{f' {name}' if name else ''}]"
    for part in ("reasoning", "content"):
        if message.get(part):
            yield str(message[part])
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield f"-> {function['name']}({function['arguments']})"
