"""Rows as JSON, one a line; numbers with all digits of their exact value."""

from collections.abc import Sequence

import orjson

from trainer_bridge.sinks.datasets.rows import Row


def encode(rows: Sequence[Row]) -> bytes:
    """The rows as one file; deterministic."""
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


def decode(data: bytes, columns: Sequence[str]) -> list[Row]:
    """Some columns of what `encode` gave.

    Raises:
        ValueError: it is no such file, or not the whole of it.
    """
    if not data.endswith(b"\n"):
        raise ValueError("no file of rows: its last line has no end")
    try:
        found = [orjson.loads(line) for line in data.splitlines()]
        return [{name: row[name] for name in columns} for row in found]
    except (KeyError, TypeError, orjson.JSONDecodeError) as error:
        raise ValueError(f"no file of rows: {error}") from error
