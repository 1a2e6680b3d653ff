"""Blobs: inline or in parts, checked when read."""

import base64
import os
from typing import Any

import pytest

from episode_operator.results import blobs


def stored(data: bytes) -> tuple[Any, list[bytes]]:
    blob = blobs.describe(data, encoding="json+zstd", result="r", kind="messages")
    return blob, blobs.split(data)


@pytest.mark.parametrize("size", [0, 1, blobs.INLINE_LIMIT_BYTES])
def test_small_data_is_inline(size: int) -> None:
    data = os.urandom(size)
    blob, parts = stored(data)
    assert blob.parts is None
    assert parts == []
    assert blobs.join(blob, []) == data


@pytest.mark.parametrize("size", [blobs.INLINE_LIMIT_BYTES + 1, 3 * blobs.PART_BYTES + 7])
def test_large_data_is_in_parts_below_the_limit_of_etcd(size: int) -> None:
    data = os.urandom(size)
    blob, parts = stored(data)
    assert blob.inline is None
    bodies = [
        blobs.part_body(name, part, namespace="n", owner={})
        for name, part in zip(blob.parts, parts, strict=True)
    ]
    assert all(len(base64.b64encode(part)) < 1024 * 1024 for part in parts)
    assert blobs.join(blob, [blobs.part_bytes(body) for body in bodies]) == data


def test_damaged_or_missing_parts_are_noticed() -> None:
    blob, parts = stored(os.urandom(2 * blobs.PART_BYTES))
    for broken in (parts[:1], parts[::-1], [parts[0], parts[1][:-1] + b"x"]):
        with pytest.raises(blobs.BlobError):
            blobs.join(blob, broken)


def test_parts_of_other_content_have_other_names() -> None:
    first, _ = stored(os.urandom(2 * blobs.PART_BYTES))
    second, _ = stored(os.urandom(2 * blobs.PART_BYTES))
    assert set(first.parts).isdisjoint(second.parts)
