"""Zstandard, bounded: what is read may come from anywhere."""

import zstandard

_LEVEL = 3
_MAX_BYTES = 1 << 30


class CompressionError(ValueError):
    """Bytes that are not one compressed frame of a known and bearable size."""


def compress(data: bytes) -> bytes:
    """One frame, which tells its size; deterministic."""
    return zstandard.ZstdCompressor(level=_LEVEL).compress(data)


def decompress(data: bytes) -> bytes:
    """What `compress` was given.

    Raises:
        CompressionError: it is not what `compress` gives, or over 1 GiB.
    """
    try:
        size = zstandard.frame_content_size(data)
        if not 0 <= size <= _MAX_BYTES:
            raise CompressionError(f"a frame of {size} bytes")
        return zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CompressionError(str(error)) from error
