"""The conversation, as compressed JSON."""

from typing import Any, Final

import orjson

from episode_operator.results.compression import CompressionError, compress, decompress

ENCODING: Final = "json+zstd"


class MessagesError(ValueError):
    """Bytes that are not a conversation."""


def encode(messages: list[dict[str, Any]]) -> bytes:
    """Encode a list of chat messages; deterministic."""
    return compress(orjson.dumps(messages, option=orjson.OPT_SORT_KEYS))


def decode(data: bytes) -> list[dict[str, Any]]:
    """Decode what `encode` gave.

    Raises:
        MessagesError: the bytes are no list of messages.
    """
    try:
        messages = orjson.loads(decompress(data))
    except (CompressionError, orjson.JSONDecodeError) as error:
        raise MessagesError(f"no messages: {error}") from error
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        raise MessagesError("no list of messages")
    return messages
