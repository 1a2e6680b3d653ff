"""Two replicas of the operator share the Episodes; with what one leaves the other goes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from episode_operator.api.episode import Episode
from episode_operator.kube.membership import owner
from tests.cluster.episodes import Episodes
from tests.cluster.held import COUNT, finish, start
from tests.cluster.local_operator import LocalOperator, operating


@asynccontextmanager
async def replica(episodes: Episodes, folder: Path, name: str) -> AsyncIterator[LocalOperator]:
    """One of the replicas of an installation that has these Episodes alone."""
    own = folder / name
    own.mkdir()
    settings = {
        "EPISODE_REPLICA_NAME": name,
        "EPISODE_REPLICA_NAMESPACE": episodes.namespace,
        "EPISODE_INSTALLATION": "episodes",
    }
    async with operating(episodes, own, settings) as operator:
        yield operator


async def live(operator: LocalOperator) -> int:
    return int((await operator.metric("episode_operator_episodes_live"))[()])


async def until_live(counts: dict[LocalOperator, int]) -> None:
    async with asyncio.timeout(60):
        while [await live(operator) for operator in counts] != list(counts.values()):
            await asyncio.sleep(0.2)


def share(running: dict[str, Episode], name: str, *names: str) -> int:
    return [owner(episode.uid, names) for episode in running.values()].count(name)


async def finished(*operators: LocalOperator) -> int:
    """Episodes that they have counted as finished."""
    counts = [
        await one.metric("episode_operator_episodes_finished_total", "verdict") for one in operators
    ]
    return int(sum(sum(each.values()) for each in counts))


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_one_of_two_is_lost(
    unwatched: Episodes, busybox: str, tmp_path: Path, how: str
) -> None:
    async with (
        replica(unwatched, tmp_path, "a") as a,
        replica(unwatched, tmp_path, "b") as b,
    ):
        running = await start(unwatched, busybox)
        await until_live(
            {one: share(running, name, "a", "b") for name, one in (("a", a), ("b", b))}
        )
        await (b.kill() if how == "killed" else b.stop())
        await until_live({a: COUNT})
        await finish(unwatched, running)
        assert await finished(a) == COUNT


async def test_another_one_comes(unwatched: Episodes, busybox: str, tmp_path: Path) -> None:
    """It takes its share of what is running, and of nothing else."""
    async with replica(unwatched, tmp_path, "a") as a:
        running = await start(unwatched, busybox)
        await until_live({a: COUNT})
        async with replica(unwatched, tmp_path, "b") as b:
            await until_live({a: share(running, "a", "a", "b"), b: share(running, "b", "a", "b")})
            await finish(unwatched, running)
            assert await finished(a, b) == COUNT
