"""Blobs: bytes inline when small, else in numbered ConfigMaps or an object, checked when read."""

import base64
import binascii
import hashlib
from typing import Any, Literal

from episode_operator.api.result import Blob

INLINE_LIMIT_BYTES = 128 * 1024
"""Three inline blobs, base64, stay far below the 1 MiB that etcd takes in one object."""

PART_BYTES = 512 * 1024

Encoding = Literal["safetensors+zstd", "json+zstd", "tar+gzip"]


class BlobError(ValueError):
    """Stored bytes that are not what was written."""


def fits_inline(data: bytes) -> bool:
    """Whether the data is small enough to be in the EpisodeResult itself."""
    return len(data) <= INLINE_LIMIT_BYTES


def split(data: bytes) -> list[bytes]:
    """The parts of data that is too large to be inline."""
    return [data[i : i + PART_BYTES] for i in range(0, len(data), PART_BYTES)]


def inline(data: bytes, *, encoding: Encoding) -> Blob:
    """The Blob of data that is small enough."""
    return _blob(data, encoding, inline=base64.b64encode(data).decode())


def in_parts(data: bytes, *, encoding: Encoding, result: str, kind: str) -> Blob:
    """The Blob of data in ConfigMaps.

    Their names hold a digest, so that parts of a half-written result are never taken for others.
    """
    digest = hashlib.sha256(data).hexdigest()[:8]
    names = [f"{result}-{kind}-{digest}-{index}" for index in range(len(split(data)))]
    return _blob(data, encoding, parts=names)


def in_object(data: bytes, *, encoding: Encoding, uri: str) -> Blob:
    """The Blob of data in an object store."""
    return _blob(data, encoding, uri=uri)


def object_key(data: bytes, *, namespace: str, result: str, kind: str) -> str:
    """Name of the object of some data; the same data of a result has one name."""
    return f"{namespace}/{result}/{kind}-{hashlib.sha256(data).hexdigest()}"


def _blob(data: bytes, encoding: Encoding, **where: Any) -> Blob:
    digest = hashlib.sha256(data).hexdigest()
    return Blob(encoding=encoding, sha256=digest, size=len(data), **where)


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
    """The bytes of one part.

    Raises:
        BlobError: it is no part.
    """
    try:
        return base64.b64decode(config_map["binaryData"]["part"], validate=True)
    except (KeyError, TypeError, binascii.Error) as error:
        raise BlobError(f"ConfigMap {config_map['metadata']['name']} holds no part") from error


def inline_bytes(blob: Blob) -> bytes:
    """The bytes of an inline blob.

    Raises:
        BlobError: they are no base64.
    """
    try:
        return base64.b64decode(blob.inline or "", validate=True)
    except binascii.Error as error:
        raise BlobError(f"inline bytes are not base64: {error}") from error


def checked(blob: Blob, data: bytes) -> bytes:
    """The bytes, if they are those of the blob.

    Raises:
        BlobError: size or sha256 differ from what was written.
    """
    digest = hashlib.sha256(data).hexdigest()
    if len(data) != blob.size or digest != blob.sha256:
        raise BlobError(
            f"{len(data)} bytes with sha256 {digest}, expected {blob.size} with {blob.sha256}"
        )
    return data
