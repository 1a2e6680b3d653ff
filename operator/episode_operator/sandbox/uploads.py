"""Bytes on their way to the pod's disk, in chunks of which a few are under way at a time."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import aclosing
from typing import Any, Final

from .requester import Requester

CHUNK_BYTES: Final = 256 << 10
_CHUNKS_IN_FLIGHT = 4


async def upload(
    requester: Requester,
    operation: str,
    parameters: dict[str, Any],
    data: bytes | AsyncIterable[bytes],
    *,
    name: str,
) -> str:
    """Opens an upload by the operation and sends the data. What fails is dropped in the pod.

    Returns the SHA-256 of the data, hex.

    Args:
        name: of the upload, for whatever takes it from here.

    Raises:
        RequestError: and whatever the data's own iterator raises.
    """
    await requester.request(operation, parameters | {"upload": name})
    free = asyncio.Semaphore(_CHUNKS_IN_FLIGHT)

    async def write(offset: int, chunk: bytes) -> None:
        try:
            position = {"upload": name, "offsetBytes": offset}
            await requester.request("writeUpload", position, chunk, recorded=False)
        finally:
            free.release()

    offset, digest = 0, hashlib.sha256()
    try:
        async with asyncio.TaskGroup() as group, aclosing(_chunks(data)) as chunks:
            async for chunk in chunks:
                await free.acquire()
                group.create_task(write(offset, chunk))
                offset += len(chunk)
                digest.update(chunk)
    except BaseExceptionGroup as failures:
        await abort(requester, name)
        raise failures.exceptions[0] from None
    return digest.hexdigest()


async def abort(requester: Requester, name: str) -> None:
    """Drops an upload; an unknown one is fine."""
    await requester.request("abortUpload", {"upload": name}, recorded=False)


async def _chunks(data: bytes | AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    async for piece in _only(data) if isinstance(data, bytes) else data:
        for start in range(0, len(piece), CHUNK_BYTES):
            yield piece[start : start + CHUNK_BYTES]


async def _only(piece: bytes) -> AsyncIterator[bytes]:
    yield piece
