"""The journal: done steps are never done again, whatever interrupts."""

import asyncio
from typing import Any

import pytest

from episode_operator.agent.journal import (
    AGENT_ENDED,
    AgentEndedError,
    Journal,
    JournalMismatchError,
)
from tests.fakes.journal_store import JournalStore


class Store(JournalStore):
    """One that takes an entry only when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.appending = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def journal_append(self, index: int, data: bytes) -> None:
        self.appending.set()
        await self.go_on.wait()
        await super().journal_append(index, data)


class Steps:
    """Counts how often each step was done live."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.replayed: list[Any] = []

    async def take(self, journal: Journal, step: str) -> Any:
        async def live() -> dict[str, Any]:
            self.done.append(step)
            return {"of": step, "number": len(self.done)}

        return await journal.once(step, live, replay=self.replayed.append)


async def test_a_second_walk_repeats_nothing() -> None:
    store, first, second = Store(), Steps(), Steps()
    journal = await Journal.load(store)
    values = [await first.take(journal, step) for step in ("a", "b")]
    again = await Journal.load(store)
    assert [await second.take(again, step) for step in ("a", "b")] == values
    assert second.done == []
    assert second.replayed == values
    await second.take(again, "c")
    assert second.done == ["c"]


async def test_other_steps_than_recorded_are_an_error() -> None:
    store, steps = Store(), Steps()
    await steps.take(await Journal.load(store), "a")
    with pytest.raises(JournalMismatchError, match="'a', expected 'b'"):
        await steps.take(await Journal.load(store), "b")


async def test_an_agent_that_ended_in_the_middle_of_a_turn_ends_there_again() -> None:
    store, steps = Store(), Steps()
    journal = await Journal.load(store)
    await steps.take(journal, "turn-0")
    ended = await steps.take(journal, AGENT_ENDED)
    again = await Journal.load(store)
    assert again.end_ahead
    await steps.take(again, "turn-0")
    with pytest.raises(AgentEndedError):
        await steps.take(again, "answers-0")
    assert await steps.take(again, AGENT_ENDED) == ended
    assert not again.end_ahead


async def test_a_step_cancelled_while_it_is_appended_is_recorded_once() -> None:
    """The agent's time is over at the very moment a turn is written down."""
    store, steps = Store(), Steps()
    journal = await Journal.load(store)
    store.go_on.clear()
    taking = asyncio.create_task(steps.take(journal, "turn-0"))
    await store.appending.wait()
    taking.cancel()
    await asyncio.sleep(0)
    store.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await taking
    await steps.take(journal, AGENT_ENDED)
    assert len(store.entries) == 2
    again = await Journal.load(store)
    await steps.take(again, "turn-0")
    await steps.take(again, AGENT_ENDED)
    assert steps.done == ["turn-0", AGENT_ENDED]


async def test_a_step_that_fails_is_not_recorded() -> None:
    store, steps = Store(), Steps()
    journal = await Journal.load(store)

    async def fails() -> dict[str, Any]:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await journal.once("a", fails)
    assert store.entries == []
    await steps.take(journal, "a")
    assert len(store.entries) == 1
