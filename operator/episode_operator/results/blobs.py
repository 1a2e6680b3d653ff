"""Blobs: bytes inline when small, else in numbered ConfigMaps of at most 512 KiB each."""

import base64
import hashlib
from typing import Any, Literal

from episode_operator.api.result import Blob

INLINE_LIMIT_BYTES = 128 * 1024
"""Three inline blobs, base64, stay far below the 1 MiB that etcd takes in one object."""

PART_BYTES = 512 * 1024

Encoding = Literal["safetensors+zstd", "json+zstd", "tar+gzip"]


class BlobError(ValueError):
    """Stored bytes that are not what was written."""


def split(data: bytes) -> list[bytes]:
    """The parts of data that is too large to be inline; empty if it is small enough."""
    if len(data) <= INLINE_LIMIT_BYTES:
        return []
    return [data[i : i + PART_BYTES] for i in range(0, len(data), PART_BYTES)]


def describe(data: bytes, *, encoding: Encoding, result: str, kind: str) -> Blob:
    """The Blob to write into an EpisodeResult for the data.

    The names of its parts hold a digest, so that parts of a half-written result are never taken
    for others.
    """
    parts = split(data)
    digest = hashlib.sha256(data).hexdigest()
    names = [f"{result}-{kind}-{digest[:8]}-{index}" for index in range(len(parts))]
    return Blob(
        encoding=encoding,
        sha256=digest,
        size=len(data),
        inline=None if parts else base64.b64encode(data).decode(),
        parts=names or None,
    )


def part_body(name: str, part: bytes, *, namespace: str, owner: dict[str, Any]) -> dict[str, Any]:
    """The ConfigMap of one part; immutable, deleted with its EpisodeResult."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner]},
        "immutable": True,
        "binaryData": {"part": base64.b64encode(part).decode()},
    }


def part_bytes(config_map: dict[str, Any]) -> bytes:
    """The bytes of one part."""
    return base64.b64decode(config_map["binaryData"]["part"], validate=True)


def join(blob: Blob, parts: list[bytes]) -> bytes:
    """The bytes of a blob; `parts` are those of its ConfigMaps, in order.

    Raises:
        BlobError: size or sha256 differ from what was written.
    """
    data = base64.b64decode(blob.inline, validate=True) if blob.inline else b"".join(parts)
    digest = hashlib.sha256(data).hexdigest()
    if len(data) != blob.size or digest != blob.sha256:
        raise BlobError(
            f"{len(data)} bytes with sha256 {digest}, expected {blob.size} with {blob.sha256}"
        )
    return data
