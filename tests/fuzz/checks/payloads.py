"""Token payloads: any bytes are a row that says exactly what they say, or no payload."""

import json
import math
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import zstandard

from episode_operator.results.payload import PayloadError, TokenRow, decode, encode

_FORMATS = {
    "tokens": ("I32", "i"),
    "mask": ("BOOL", "B"),
    "logprobs": ("F32", "f"),
    "turn": ("I16", "h"),
}
Row = dict[str, Sequence[Any]]


def packed(header: bytes, data: bytes) -> bytes:
    """A safetensors file with its header's length as it should be."""
    return len(header).to_bytes(8, "little") + header + data


def read(file: bytes) -> Row | None:
    """The four arrays of a safetensors file as lists, or None where it is not such a file."""
    length = int.from_bytes(file[:8], "little")
    try:
        header: dict[str, Any] = json.loads(file[8 : 8 + length])
        return {name: _array(header[name], name, file[8 + length :]) for name in _FORMATS}
    except (ValueError, KeyError, TypeError, struct.error):
        return None


def _array(entry: dict[str, Any], name: str, data: bytes) -> Sequence[Any]:
    dtype, code = _FORMATS[name]
    (length,) = entry["shape"]
    begin, end = entry["data_offsets"]
    if entry["dtype"] != dtype:
        raise ValueError(f"{name} is {entry['dtype']}")
    return struct.unpack(f"<{length}{code}", data[begin:end])


def consistent(row: Row) -> bool:
    """Whether the arrays can be a row, by the words of docs/payload.md."""
    tokens, mask, logprobs, turn = (row[name] for name in _FORMATS)
    return (
        len(tokens) == len(mask) == len(logprobs) == len(turn)
        and all(token >= 0 for token in tokens)
        and all(byte in (0, 1) for byte in mask)
        and all(math.isfinite(value) and value <= 0 for value in logprobs)
        and all(value == 0 for byte, value in zip(mask, logprobs, strict=True) if not byte)
        and all(number >= 0 for number in turn)
        and all(earlier <= later for earlier, later in pairwise(turn))
    )


def check(data: bytes, file: bytes | None) -> None:
    """Any bytes. `file`: what they hold, compressed; None where they are just bytes."""
    try:
        row = decode(data)
    except PayloadError:
        return
    if file is None:
        file = zstandard.ZstdDecompressor().decompress(data, max_output_size=1 << 20)
    expected = read(file)
    assert expected is not None, f"read from {file!r}"
    assert consistent(expected), f"taken: {expected}"
    assert _lists(row) == {name: list(values) for name, values in expected.items()}
    assert _lists(decode(encode(row))) == _lists(row)


def _lists(row: TokenRow) -> Row:
    return {name: array.tolist() for name, array in row.arrays().items()}


def fuzz(data: bytes) -> None:
    """As it is, as a compressed file, and as the header and the data of one."""
    check(data, None)
    header, _, rest = data.partition(b"\n")
    for file in (data, packed(header, rest)):
        check(zstandard.compress(file), file)
