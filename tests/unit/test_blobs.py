"""Blobs: inline or in parts, checked when read."""

import base64
import os

import pytest

from episode_operator.api.result import Blob
from episode_operator.results import blobs


def in_parts(data: bytes) -> Blob:
    return blobs.in_parts(data, encoding="json+zstd", result="r", kind="messages")


@pytest.mark.parametrize("size", [0, 1, blobs.INLINE_LIMIT_BYTES])
def test_small_data_is_inline(size: int) -> None:
    data = os.urandom(size)
    assert blobs.fits_inline(data)
    blob = blobs.inline(data, encoding="json+zstd")
    assert blobs.checked(blob, blobs.inline_bytes(blob)) == data


@pytest.mark.parametrize("size", [blobs.INLINE_LIMIT_BYTES + 1, 3 * blobs.PART_BYTES + 7])
def test_large_data_is_in_parts_below_the_limit_of_etcd(size: int) -> None:
    data = os.urandom(size)
    assert not blobs.fits_inline(data)
    blob, parts = in_parts(data), blobs.split(data)
    assert blob.parts is not None
    bodies = [
        blobs.part_body(name, part, namespace="n", owner={})
        for name, part in zip(blob.parts, parts, strict=True)
    ]
    assert all(len(base64.b64encode(part)) < 1024 * 1024 for part in parts)
    assert blobs.checked(blob, b"".join(blobs.part_bytes(body) for body in bodies)) == data


def test_damaged_or_missing_parts_are_noticed() -> None:
    data = os.urandom(2 * blobs.PART_BYTES)
    blob, parts = in_parts(data), blobs.split(data)
    for broken in (parts[:1], parts[::-1], [parts[0], parts[1][:-1] + b"x"]):
        with pytest.raises(blobs.BlobError):
            blobs.checked(blob, b"".join(broken))


def test_what_is_no_base64_is_noticed() -> None:
    blob = blobs.inline(b"abc", encoding="json+zstd").model_copy(update={"inline": "YW*j"})
    with pytest.raises(blobs.BlobError, match="base64"):
        blobs.inline_bytes(blob)
    for content in (None, {}, {"part": "YW*j"}):
        with pytest.raises(blobs.BlobError, match="r-tokens-0"):
            blobs.part_bytes({"metadata": {"name": "r-tokens-0"}, "binaryData": content})


def test_parts_and_objects_of_other_content_have_other_names() -> None:
    first, second = os.urandom(2 * blobs.PART_BYTES), os.urandom(2 * blobs.PART_BYTES)
    assert set(in_parts(first).parts or []).isdisjoint(in_parts(second).parts or [])
    names = {"namespace": "n", "result": "r", "kind": "tokens"}
    assert blobs.object_key(first, **names) == blobs.object_key(first, **names)
    assert blobs.object_key(first, **names) != blobs.object_key(second, **names)
    assert blobs.object_key(first, **names).startswith("n/r/tokens-")
