"""Token payloads of any bytes."""

import json
import struct
from typing import Any

import numpy as np
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from episode_operator.results.payload import TokenRow, encode
from tests.fuzz.checks import payloads
from tests.fuzz.profile import PROFILE
from tests.unit.test_payload import row, row_with_student_topk

DTYPES = st.sampled_from(
    ["I32", "BOOL", "F32", "I16", "F16", "BF16", "F8_E4M3", "F8_E5M2", "F4", "F64", "U8", "C64"]
)
PAYLOADS = [
    *(
        encode(
            TokenRow(**{name: np.repeat(array, times) for name, array in row().arrays().items()})
        )
        for times in (0, 1, 100)
    ),
    encode(row_with_student_topk()),
]
RIGHT = {"tokens": ("I32", 4), "mask": ("BOOL", 1), "logprobs": ("F32", 4), "turn": ("I16", 2)}


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Header and data of a file that is nearly right: mostly sizes fit, mostly types are known."""
    header: dict[str, Any] = {}
    offset = 0
    for name, (dtype, size) in RIGHT.items():
        shape = draw(st.sampled_from([[2], [2], [2], [], [1, 2], [0], [2, 0], [3]]))
        length = size * (draw(st.integers(0, 3)) if len(shape) > 1 else (shape or [1])[0])
        header[name] = {
            "dtype": draw(st.just(dtype) | st.just(dtype) | DTYPES),
            "shape": shape,
            "data_offsets": [offset, offset + length],
        }
        offset += length
    data = draw(st.binary(min_size=offset, max_size=offset) | st.just(bytes(offset)))
    return json.dumps(header, separators=(",", ":")).encode() + b"\n" + data


@PROFILE
@given(files())
def test_files_that_are_nearly_right(file: bytes) -> None:
    payloads.fuzz(file)


@PROFILE
@given(
    tokens=st.lists(st.integers(-2, 9), min_size=2, max_size=2),
    mask=st.lists(st.integers(0, 255) | st.integers(0, 1), min_size=2, max_size=2),
    logprobs=st.lists(st.floats(width=32) | st.just(0.0), min_size=2, max_size=2),
    turn=st.lists(st.integers(-(2**15), 2**15 - 1) | st.integers(0, 1), min_size=2, max_size=2),
)
def test_values_of_any_kind(
    tokens: list[int], mask: list[int], logprobs: list[float], turn: list[int]
) -> None:
    header: dict[str, Any] = {}
    data = b""
    arrays: dict[str, tuple[str, list[Any]]] = {
        "tokens": ("i", tokens),
        "mask": ("B", mask),
        "logprobs": ("f", logprobs),
        "turn": ("h", turn),
    }
    for name, (code, values) in arrays.items():
        packed = struct.pack(f"<2{code}", *values)
        offsets = [len(data), len(data) + len(packed)]
        header[name] = {"dtype": RIGHT[name][0], "shape": [2], "data_offsets": offsets}
        data += packed
    payloads.fuzz(json.dumps(header).encode() + b"\n" + data)


@PROFILE
@given(st.sampled_from(PAYLOADS), st.data())
def test_damaged_payloads(payload: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(payload)))
    until = data.draw(st.integers(at, min(at + 5, len(payload))))
    payloads.check(payload[:at] + data.draw(st.binary(max_size=5)) + payload[until:], None)


@PROFILE
@given(st.binary(max_size=100))
def test_any_bytes(data: bytes) -> None:
    payloads.fuzz(data)


@PROFILE
@given(
    counts=st.lists(st.integers(-1, 3), min_size=2, max_size=2),
    ids=st.lists(st.integers(-1, 8), min_size=0, max_size=4),
    logprobs=st.lists(st.sampled_from([-0.5, -1.25, -2.0, 0.0, 1.0, float("nan")]), max_size=4),
)
def test_student_topk_of_any_kind(counts: list[int], ids: list[int], logprobs: list[float]) -> None:
    arrays = {
        **row().arrays(),
        "student_topk_counts": np.array(counts, dtype=np.int16),
        "student_topk_token_ids": np.array(ids, dtype=np.int32),
        "student_topk_logprobs": np.array(logprobs, dtype=np.float32),
    }
    file = save(arrays)
    payloads.check(zstandard.compress(file), file)
