"""Records as files take them: checked once more, and every message with the same keys."""

from collections.abc import Set
from math import isfinite
from typing import Any, Final

from episode_operator.results.arrays import PayloadError
from episode_operator.results.record import EpisodeRecord
from trainer_bridge.sinks.base import RefusedError
from trainer_bridge.sinks.checks import Refusal, check_distinct, check_parts
from trainer_bridge.training import TrainingGroup

MESSAGE: Final[dict[str, Any]] = {
    "role": "string",
    "content": "string",
    "reasoning": "string",
    "tool_calls": [
        {
            "id": "string",
            "type": "string",
            "function": {"name": "string", "arguments": "string"},
        }
    ],
    "tool_call_id": "string",
    "name": "string",
}


_OPTIONAL: Final = MESSAGE.keys() - {"role"}


def check(group: TrainingGroup) -> None:
    """What must hold of a group before it is written; JSON would turn infinities into nulls.

    Raises:
        RefusedError: Doubled: an Episode twice. NonFinite: a reward or a part of it. Malformed: the
            arrays of a member.
    """
    check_distinct(group)
    for record in group.members:
        check_record(record)


def check_record(record: EpisodeRecord) -> None:
    """What must hold of one Episode.

    Raises:
        RefusedError: NonFinite or Malformed, as `check`.
    """
    name, spec = record.result.spec.episode.name, record.result.spec
    for part, value in {"reward": spec.reward, **spec.reward_components}.items():
        if value is not None and not isfinite(value):
            raise RefusedError(Refusal.NON_FINITE, f"Episode {name}: {part} is {value}")
    try:
        check_parts(record)
    except PayloadError as error:
        raise RefusedError(Refusal.MALFORMED, f"Episode {name}: {error}") from error


def messages(record: EpisodeRecord) -> list[dict[str, Any]] | None:
    """The conversation in the form MESSAGE; what a message does not have is None in it.

    Raises:
        RefusedError: BadMessages: a message has something that the form has no place for, or lacks
            its role or a part of a tool call.
    """
    if record.messages is None:
        return None
    where = f"Episode {record.result.spec.episode.name}: messages"
    return [
        _fitted(message, MESSAGE, f"{where}[{at}]", optional=_OPTIONAL)
        for at, message in enumerate(record.messages)
    ]


def _fitted(value: Any, form: Any, where: str, *, optional: Set[str] = frozenset()) -> Any:
    if isinstance(form, list) and isinstance(value, list):
        return [_fitted(item, form[0], f"{where}[{at}]") for at, item in enumerate(value)]
    if isinstance(form, dict) and isinstance(value, dict):
        unknown = sorted(value.keys() - form.keys())
        if unknown:
            raise RefusedError(Refusal.BAD_MESSAGES, f"{where} has {unknown}, which would be lost")
        return {
            key: None
            if key in optional and value.get(key) is None
            else _fitted(value.get(key), part, f"{where}.{key}")
            for key, part in form.items()
        }
    if form == "string" and isinstance(value, str):
        return value
    raise RefusedError(Refusal.BAD_MESSAGES, f"{where} is a {type(value).__name__}")
