"""The episode's finished turns, kept in the runner's memory."""

from __future__ import annotations

import zstandard

from . import errors
from .requester import Requester

_PAGE_BYTES = 1 << 20


class JournalClient:
    """Appends entries and reads them back. They are compressed, so the runner's bound goes far."""

    def __init__(self, requester: Requester) -> None:
        self._requester = requester

    async def journal_append(self, index: int, data: bytes) -> None:
        """Adds entry `index`, which is the number of entries so far.

        Repeating an append with the same data changes nothing.

        Raises:
            JournalConflict: the entry exists with other content, or would leave a gap.
            JournalFull: the runner's bound is reached.
        """
        compressed = zstandard.compress(data)
        try:
            await self._requester.request(
                "appendJournal", {"index": index}, compressed, recorded=False
            )
        except errors.JournalConflict:
            # The same content may have been compressed by another version of the library.
            if data not in (await self._read(index, limit_bytes=1))[0][:1]:
                raise

    async def journal_read(self) -> list[bytes]:
        """All entries, in order."""
        entries: list[bytes] = []
        while True:
            page, length = await self._read(len(entries), limit_bytes=_PAGE_BYTES)
            entries.extend(page)
            if len(entries) >= length:
                return entries

    async def _read(self, first: int, *, limit_bytes: int) -> tuple[list[bytes], int]:
        answer = await self._requester.request(
            "readJournal", {"first": first, "limitBytes": limit_bytes}, recorded=False
        )
        page, start = [], 0
        for size in answer.result.get("sizes", []):
            page.append(zstandard.decompress(answer.payload[start : start + size]))
            start += size
        return page, answer.result["length"]
