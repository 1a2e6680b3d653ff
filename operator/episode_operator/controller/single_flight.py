"""One question for all who ask it at the same time."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """Many Episodes start at once; all take what one of them is answered, also an error."""

    def __init__(self) -> None:
        self._asking: dict[K, asyncio.Task[V]] = {}

    async def ask(self, key: K, question: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """The answer to what is asked under this key already, else to `question`.

        One who leaves stops it for nobody else.
        """
        if key not in self._asking:
            self._asking[key] = asyncio.create_task(question())
            self._asking[key].add_done_callback(lambda asked: self._answered(key, asked))
        return await asyncio.shield(self._asking[key])

    def close(self) -> None:
        """Stop all questions."""
        for asking in self._asking.values():
            asking.cancel()

    def _answered(self, key: K, asked: asyncio.Task[V]) -> None:
        del self._asking[key]
        if not asked.cancelled():
            asked.exception()  # seen, also where all who asked have left
