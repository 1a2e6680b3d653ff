"""The journal of an attempt: steps that are done are never done again.

The operator keeps no state of its own while an Episode runs. Each finished step is appended to
the runner's memory in the pod; a restarted operator walks the same steps in the same order, takes
the recorded values, and goes on at the first step that has none.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import orjson

Record = dict[str, Any]


AGENT_ENDED = "agent-ended"
"""The step that ends an agent, wherever it was: out of time, it stops in the middle of a turn."""


class JournalMismatchError(Exception):
    """The journal holds other steps than this operator would take, as after an upgrade."""


class AgentEndedError(Exception):
    """While the agent's steps are walked again: here it had ended."""


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
        self.live = False
        """Whether the last step was done now, and not taken from the record."""

    @classmethod
    async def load(cls, store: JournalStore) -> "Journal":
        """The journal as the pod holds it."""
        return cls(store, await store.journal_read())

    @property
    def end_ahead(self) -> bool:
        """Whether the agent's end is recorded at a place that is still to be walked."""
        return any(entry["step"] == AGENT_ENDED for entry in self._entries[self._next :])

    async def once(
        self,
        step: str,
        live: Callable[[], Awaitable[Record]],
        *,
        replay: Callable[[Record], None] = lambda _: None,
    ) -> Record:
        """The value of the step: the recorded one, handed to `replay`; else that of `live`.

        Raises:
            AgentEndedError: the agent had ended at this place.
            JournalMismatchError: another step is recorded at this place.
        """
        if self._next < len(self._entries):
            value = self._recorded(step)
            self._next += 1
            self.live = False
            replay(value)
            return value
        value = await live()
        await self._append({"step": step, "value": value})
        self.live = True
        return value

    def _recorded(self, step: str) -> Record:
        entry = self._entries[self._next]
        if entry["step"] == step:
            value: Record = entry["value"]
            return value
        if entry["step"] == AGENT_ENDED:
            raise AgentEndedError
        raise JournalMismatchError(
            f"entry {self._next} is {entry['step']!r}, expected {step!r}; "
            "was the operator upgraded while this Episode ran?"
        )

    async def _append(self, entry: Record) -> None:
        """Append; cancelled meanwhile, it still ends with the entry known here as in the pod."""
        appending = asyncio.ensure_future(
            self._store.journal_append(self._next, orjson.dumps(entry))
        )
        try:
            await asyncio.shield(appending)
        except asyncio.CancelledError:
            await appending
            raise
        finally:
            if appending.done() and not appending.cancelled() and not appending.exception():
                self._entries.append(entry)
                self._next += 1
