"""The journal of an attempt: steps that are done are never done again.

The operator keeps no state of its own while an Episode runs. Each finished step is appended to
the runner's memory in the pod; a restarted operator walks the same steps in the same order, takes
the recorded values, and goes on at the first step that has none.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import orjson

Record = dict[str, Any]


class JournalMismatchError(Exception):
    """The journal holds other steps than this operator would take, as after an upgrade."""


class JournalStore(Protocol):
    """What keeps the entries: the sandbox session."""

    async def journal_append(self, index: int, data: bytes) -> None:
        """Append an entry; repeating the same one changes nothing."""

    async def journal_read(self) -> list[bytes]:
        """All entries, in order."""


class Journal:
    """Steps of one attempt, in order."""

    def __init__(self, store: JournalStore, entries: list[bytes]) -> None:
        self._store = store
        self._entries: list[Record] = [orjson.loads(entry) for entry in entries]
        self._next = 0

    @classmethod
    async def load(cls, store: JournalStore) -> "Journal":
        """The journal as the pod holds it."""
        return cls(store, await store.journal_read())

    async def once(self, step: str, produce: Callable[[], Awaitable[Record]]) -> Record:
        """The recorded value of the step, else the value of `produce`, recorded.

        Raises:
            JournalMismatchError: another step is recorded at this place.
        """
        index, self._next = self._next, self._next + 1
        if index < len(self._entries):
            entry = self._entries[index]
            if entry["step"] != step:
                raise JournalMismatchError(
                    f"entry {index} is {entry['step']!r}, expected {step!r}; "
                    "was the operator upgraded while this Episode ran?"
                )
            value: Record = entry["value"]
            return value
        value = await produce()
        entry = {"step": step, "value": value}
        self._entries.append(entry)
        await self._store.journal_append(index, orjson.dumps(entry))
        return value
