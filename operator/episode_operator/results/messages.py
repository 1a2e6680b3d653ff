"""The conversation, as compressed JSON."""

from typing import Any, Final

import orjson
import zstandard

ENCODING: Final = "json+zstd"

_LEVEL = 10
_MAX_BYTES = 1 << 30


def encode(messages: list[dict[str, Any]]) -> bytes:
    """Encode a list of chat messages; deterministic."""
    return zstandard.ZstdCompressor(level=_LEVEL).compress(
        orjson.dumps(messages, option=orjson.OPT_SORT_KEYS)
    )


def decode(data: bytes) -> list[dict[str, Any]]:
    """Decode what `encode` gave."""
    raw = zstandard.ZstdDecompressor().decompress(data, max_output_size=_MAX_BYTES)
    messages: list[dict[str, Any]] = orjson.loads(raw)
    return messages
