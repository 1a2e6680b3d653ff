"""Rows as Parquet. Needs pyarrow."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any, Final

import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]

from trainer_bridge.sinks.datasets.columns import COLUMNS, TIMESTAMP
from trainer_bridge.sinks.datasets.rows import Row


def _arrow(kind: Any) -> pyarrow.DataType:
    """The Arrow type of a type in COLUMNS."""
    if isinstance(kind, list):
        return pyarrow.list_(_arrow(kind[0]))
    if isinstance(kind, dict):
        return pyarrow.struct([(name, _arrow(part)) for name, part in kind.items()])
    if kind == TIMESTAMP:
        return pyarrow.timestamp("us", tz="UTC")
    return pyarrow.type_for_alias(kind)


SCHEMA: Final = pyarrow.schema([(name, _arrow(kind)) for name, kind in COLUMNS.items()])


def encode(rows: Sequence[Row]) -> bytes:
    """The rows as one file; deterministic for a version of pyarrow."""
    buffer = BytesIO()
    table = pyarrow.Table.from_pylist(list(rows), schema=SCHEMA)
    pyarrow.parquet.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def decode(data: bytes, columns: Sequence[str]) -> list[Row]:
    """Some columns of what `encode` gave.

    Raises:
        ValueError: it is no such file, or not the whole of it.
    """
    try:
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(data), columns=list(columns))
        rows: list[Row] = table.select(list(columns)).to_pylist()
    except (OSError, KeyError, pyarrow.ArrowException) as error:
        raise ValueError(f"no Parquet file of rows: {error}") from error
    return rows
