"""Runs the Episodes of one group until each has a verdict, or the group cannot complete."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from episode_operator.results.finding import RecordMissing
from episode_operator.results.record import EpisodeRecord
from trainer_bridge import metrics
from trainer_bridge.run.episodes import RunEpisodes
from trainer_bridge.run.groups import Complete, Drop, Ended, Rerun, Wait, decide
from trainer_bridge.run.names import GroupName
from trainer_bridge.sources import Build


class Members:
    """The members of a group, by their index.

    `tries` says how many Episodes of a member were given up; `on_rerun` brings it up to date.
    """

    def __init__(
        self,
        episodes: RunEpisodes,
        name: GroupName,
        build: Callable[[int], Build],
        *,
        count: int,
        tries: Mapping[int, int],
        reruns_left: int,
        on_rerun: Callable[[int, str], Awaitable[None]],
    ) -> None:
        self._episodes = episodes
        self._name = name
        self._build = build
        self._count = count
        self._tries = tries
        self._reruns_left = reruns_left
        self._on_rerun = on_rerun

    async def finish(self, *, resumed: bool) -> tuple[EpisodeRecord, ...] | Drop:
        """The records of all members in order, or why the group is dropped.

        `resumed` says that Episodes may exist, or have existed, already.

        Raises:
            Unreadable: the task cannot be built, or the API server finds fault with its Episode.
            ApiError, ObjectStoreError, LeaseLostError: the bridge cannot go on.
        """
        ended: list[EpisodeRecord | Ended | None] = [None] * self._count
        tasks = {
            asyncio.create_task(self._run(member, resumed=resumed)): member
            for member in range(self._count)
        }
        try:
            while True:
                decision = decide([_summary(each) for each in ended], reruns_left=self._reruns_left)
                match decision:
                    case Complete():
                        return tuple(each for each in ended if isinstance(each, EpisodeRecord))
                    case Drop():
                        return decision
                    case Rerun(member, reason):
                        self._reruns_left -= 1
                        await self._on_rerun(member, reason)
                        ended[member] = None
                        again = self._run(member, resumed=resumed)
                        tasks[asyncio.create_task(again)] = member
                    case Wait():
                        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                        for task in done:
                            ended[tasks.pop(task)] = task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, member: int, *, resumed: bool) -> EpisodeRecord | Ended:
        build = await asyncio.to_thread(self._build, member)
        harness = build.spec.plan[-1].verifier.contract
        name = self._name.episode(member, self._tries.get(member, 0))
        if not resumed or not await self._exists(name, harness):
            await self._episodes.create(name, self._name, build)
        with metrics.EPISODES_IN_FLIGHT.track_inprogress():
            while True:
                told = self._episodes.watcher.ended(name)
                try:
                    found = await self._episodes.read(name, harness=harness)
                except RecordMissing as error:
                    return Ended.deleted(str(error))
                if found is not None:
                    return found
                await asyncio.shield(told)

    async def _exists(self, name: str, harness: str) -> bool:
        try:
            await self._episodes.read(name, harness=harness)
        except RecordMissing:
            return False
        return True


def _summary(member: EpisodeRecord | Ended | None) -> Ended | None:
    if isinstance(member, EpisodeRecord):
        spec = member.result.spec
        return Ended(spec.verdict, spec.reason, spec.message)
    return member
