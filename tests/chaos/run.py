"""Runs a plan: creates the Episodes, lets the faults strike, and waits for the end of each."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from episode_operator.api.episode import Episode
from episode_operator.api.reasons import Phase
from episode_operator.kube.client import EPISODES, AlreadyExistsError
from tests.chaos.board import Board
from tests.chaos.faults import MissedError, World
from tests.chaos.judge import Outcome, clean_up, judge
from tests.chaos.plan import Planned
from tests.cluster.episodes import manifest

EPISODE_SECONDS = 420.0
_ORDER = [None, Phase.STARTING, Phase.RUNNING, Phase.VERIFYING, Phase.FINISHED]

Say = Callable[[int, str], None]
"""Is told how many Episodes have ended, and what is waited for."""


async def run(world: World, planned: list[Planned], *, at_a_time: int, say: Say) -> list[Outcome]:
    """Run all, judge each, delete all and see what is left."""
    board = Board(world.client, world.namespace)
    following = asyncio.create_task(board.follow())
    try:
        outcomes = await _Run(world, board, at_a_time, say).all(planned)
    finally:
        following.cancel()
    say(len(planned), "everything to be gone")
    await judge(world, outcomes)
    await clean_up(world, outcomes)
    return outcomes


class _Run:
    """The Episodes under way."""

    def __init__(self, world: World, board: Board, at_a_time: int, say: Say) -> None:
        self._world = world
        self._board = board
        self._say = say
        self._limit = asyncio.Semaphore(at_a_time)
        self._alone = asyncio.Lock()
        self._waiting: Counter[str] = Counter()
        self._ended = 0

    async def all(self, planned: list[Planned]) -> list[Outcome]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._one(each)) for each in planned]
        return [task.result() for task in tasks]

    async def _one(self, planned: Planned) -> Outcome:
        """One Episode to its end; a fault of the whole cluster is under way alone."""
        outcome = Outcome(planned)
        with suppress(TimeoutError):
            if planned.fault.alone:
                async with self._alone:
                    outcome.struck = await self._begin(planned)
                await self._finish(planned)
            else:
                async with self._limit:
                    outcome.struck = await self._begin(planned)
                    await self._finish(planned)
        self._ended += 1
        return outcome

    async def _begin(self, planned: Planned) -> bool:
        """Create the Episode and strike when its moment has come; whether there was one."""
        body = manifest(planned.name, self._world.namespace, planned.known.spec)
        with suppress(AlreadyExistsError):  # made by a request whose answer was lost
            await self._world.client.create(EPISODES, body)
        async with asyncio.timeout(EPISODE_SECONDS):
            with self._waits_for(f"{planned.fault.at}"):
                episode = await self._board.until(
                    planned.name, lambda e: _reached(e, planned.fault.at)
                )
        await asyncio.sleep(planned.after_seconds)
        try:
            with self._waits_for(planned.fault.name):
                await planned.fault.strike(self._world, self._board.episodes[episode.name])
        except MissedError:
            return False
        return True

    async def _finish(self, planned: Planned) -> None:
        async with asyncio.timeout(EPISODE_SECONDS):
            with self._waits_for("the end"):
                await self._board.until(planned.name, lambda e: e.status.finished)

    @contextmanager
    def _waits_for(self, what: str) -> Iterator[None]:
        self._waiting[what] += 1
        self._tell()
        try:
            yield
        finally:
            self._waiting[what] -= 1
            self._tell()

    def _tell(self) -> None:
        waiting = ", ".join(f"{count} x {what}" for what, count in (+self._waiting).items())
        self._say(self._ended, waiting)


def _reached(episode: Episode, phase: Phase) -> bool:
    return _ORDER.index(episode.status.phase) >= _ORDER.index(phase)
