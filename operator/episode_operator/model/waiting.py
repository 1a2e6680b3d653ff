"""Why a caller waits for a model server: asked when the caller's time is over.

A server that works has taken none of that time, and one that fails, aborts or is paused has.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Self

from episode_operator.model.errors import ModelError, ModelUnavailable

ANSWER_SECONDS = 10.0
"""A server that does not even tell within this time whether it is paused does not work."""

IsPaused = Callable[[], Awaitable[bool]]


class Waiting:
    """Sees the requests that are made in its body, also by tasks that are started there.

    with Waiting() as waiting:
        ...  # cancelled, or out of time
    trouble = await waiting.trouble()
    """

    def __init__(self) -> None:
        self._asked: list[IsPaused] = []
        self._failures: list[ModelError] = []

    def __enter__(self) -> Self:
        self._before: Token[Waiting | None] = _current.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _current.reset(self._before)

    async def trouble(self) -> ModelError | None:
        """What kept the server from answering the request that was cancelled.

        None where it works, and where no request was under way.
        """
        if self._failures:
            return self._failures[-1]
        if not self._asked:
            return None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                paused = await self._asked[-1]()
        except ModelError as error:
            return error
        except TimeoutError:
            return ModelUnavailable(
                f"the server does not tell within {ANSWER_SECONDS:.0f} s whether it is paused; see "
                "the server's log"
            )
        return ModelUnavailable("the server is paused; has its trainer died?") if paused else None

    @contextmanager
    def asking(self, is_paused: IsPaused) -> Iterator[None]:
        """A request is under way; where it is cancelled it stays so."""
        self._asked.append(is_paused)
        try:
            yield
        except Exception:
            self._asked.remove(is_paused)
            raise
        self._asked.remove(is_paused)

    @contextmanager
    def failing(self, failure: ModelError) -> Iterator[None]:
        """A request is to be repeated because of this; where that is cancelled it stays so."""
        self._failures.append(failure)
        yield
        self._failures.remove(failure)


_current: ContextVar[Waiting | None] = ContextVar("waiting", default=None)


def current() -> Waiting:
    """The one that sees this task's requests; one that nobody asks where there is none."""
    return _current.get() or Waiting()
