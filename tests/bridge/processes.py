"""Bridges in the process of the tests that can be killed as if each had a process of its own."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import Context as Variables
from contextvars import ContextVar
from typing import Any

from trainer_bridge.config import BridgeConfig
from trainer_bridge.run.bridge import Bridge
from trainer_bridge.run.context import Context
from trainer_bridge.run.opening import opened
from trainer_bridge.sources.catalog import Catalog

Work = Callable[[Bridge], Awaitable[None]]

_CURRENT: ContextVar["BridgeProcess | None"] = ContextVar("bridge", default=None)
_TURNS = 100
"""Turns of the event loop in which whatever needs no answer from outside is done."""


@contextmanager
def tasks_known() -> Generator[None, None, None]:
    """Every task that a bridge begins is noted as its own."""
    loop = asyncio.get_running_loop()

    def make(
        of: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        context: Variables | None = None,
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coroutine, loop=of, context=context)
        if (process := _CURRENT.get()) is not None:
            process.tasks.add(task)
        return task

    loop.set_task_factory(make)
    try:
        yield
    finally:
        loop.set_task_factory(None)


class BridgeProcess:
    """One bridge, from its start to its end.

    Attributes:
        dead: it was killed: nothing that it says counts any more.
        requests: how many it has sent to the API server.
        tasks: all that it does.
        waited: holders of the lease that it had to wait for.
    """

    def __init__(self, token: str, settings: BridgeConfig, catalog: Catalog, work: Work) -> None:
        self.token = token
        self.dead = False
        self.requests = 0
        self.tasks: set[asyncio.Task[Any]] = set()
        self.waited: list[str] = []
        self._context: Context | None = None
        self._settings = settings
        self._catalog = catalog
        self._work = work
        token_before = _CURRENT.set(self)
        self.main: asyncio.Task[None] = asyncio.create_task(self._run())
        _CURRENT.reset(token_before)

    @property
    def context(self) -> Context:
        """The run as this bridge sees it."""
        assert self._context is not None, "it is not open yet"
        return self._context

    async def _run(self) -> None:
        async with opened(
            self._settings,
            self._catalog,
            different_scores=self._settings.env.ensure_scores_are_not_same,
            waiting=self.waited.append,
        ) as context:
            self._context = context
            await self._work(Bridge(context))

    def kill(self) -> None:
        """As `kill -9`: it does nothing more; see `ended`."""
        self.dead = True
        self._cancel()

    def stop(self) -> None:
        """As SIGTERM."""
        self.main.cancel()

    async def ended(self) -> None:
        """Once nothing of a killed bridge is left: cleaning up is cut short again and again."""
        while not all(task.done() for task in self.tasks):
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            self._cancel()

    def _cancel(self) -> None:
        for task in self.tasks:
            task.cancel()
