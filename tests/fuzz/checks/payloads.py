"""Token payloads: any bytes are a row that says exactly what they say, or no payload."""

import json
import math
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import zstandard

from episode_operator.results.arrays import PayloadError
from episode_operator.results.payload import TokenRow, decode, encode

_FORMATS = {
    "tokens": ("I32", "i"),
    "mask": ("BOOL", "B"),
    "logprobs": ("F32", "f"),
    "turn": ("I16", "h"),
}
_STUDENT_TOPK = {
    "student_topk_counts": ("I16", "h"),
    "student_topk_token_ids": ("I32", "i"),
    "student_topk_logprobs": ("F32", "f"),
}
Row = dict[str, Sequence[Any]]


def packed(header: bytes, data: bytes) -> bytes:
    """A safetensors file with its header's length as it should be."""
    return len(header).to_bytes(8, "little") + header + data


def read(file: bytes) -> Row | None:
    """The arrays of a safetensors file as lists, or None where it is not such a file."""
    length = int.from_bytes(file[:8], "little")
    try:
        header: dict[str, Any] = json.loads(file[8 : 8 + length])
        optional = {} if header.keys().isdisjoint(_STUDENT_TOPK) else _STUDENT_TOPK
        formats = {**_FORMATS, **optional}
        data = file[8 + length :]
        return {name: _array(header[name], form, data) for name, form in formats.items()}
    except (ValueError, KeyError, TypeError, struct.error):
        return None


def _array(entry: dict[str, Any], form: tuple[str, str], data: bytes) -> Sequence[Any]:
    dtype, code = form
    (length,) = entry["shape"]
    begin, end = entry["data_offsets"]
    if entry["dtype"] != dtype:
        raise ValueError(f"an array is {entry['dtype']}")
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
        and ("student_topk_counts" not in row or _consistent_topk(row))
    )


def _consistent_topk(row: Row) -> bool:
    """Whether the student's most likely tokens can be those of the row."""
    counts, ids, logprobs = (row[name] for name in _STUDENT_TOPK)
    sampled = [at for at, byte in enumerate(row["mask"]) if byte]
    if len(counts) != len(sampled) or min(counts, default=0) < 0:
        return False
    if not len(ids) == len(logprobs) == sum(counts):
        return False
    start = 0
    for at, count in zip(sampled, counts, strict=True):
        own = ids[start : start + count], logprobs[start : start + count]
        start += count
        known = dict(zip(*own, strict=True))
        value = row["logprobs"][at]
        if (
            len(known) != count
            or any(token < 0 for token in own[0])
            or not all(math.isfinite(one) and one <= 0 for one in own[1])
            or any(earlier < later for earlier, later in pairwise(own[1]))
            or known.get(row["tokens"][at], value) != value
        ):
            return False
    return True


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
