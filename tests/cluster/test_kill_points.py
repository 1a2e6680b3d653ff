"""The operator is killed before and after each of its writes: nothing is lost, nothing is doubled.

It runs here as a process of the test, with a proxy before the API server that kills it.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from episode_operator.kube import connection
from episode_operator.kube.client import EPISODE_RESULTS, NETWORK_POLICIES, KubernetesClient
from tests.cluster.episodes import Ended, Episodes, scripted, terminal
from tests.cluster.local_operator import LocalOperator
from tests.fakes.api_proxy import ApiProxy, Moment
from tests.testbed import stack

ONCE = "test $(wc -l < count) = 1 && cp count /logs/verifier/reward.txt"
WRITES = 16
"""More than an Episode without a retry makes, so that each of them is a kill point."""
AT_ONCE = 4


class Killer:
    """Kills the operator at its nth write, before or after it is carried out, and starts it."""

    def __init__(self, at: int, moment: Moment) -> None:
        self._at = at
        self._moment: Moment | None = moment
        self.seen = 0
        self.killed_at: str | None = None
        self.operator: LocalOperator | None = None
        self._restarting: asyncio.Task[None] | None = None

    async def __call__(self, write: str, moment: Moment) -> None:
        if moment != self._moment or self.killed_at is not None:
            return
        self.seen += 1
        if self.seen < self._at:
            return
        self.killed_at = write
        # A task of its own: the request ends with the operator that made it.
        self._restarting = asyncio.create_task(self._restart())
        await asyncio.shield(self._restarting)
        raise ConnectionResetError("the operator is dead, and so is its request")

    async def stop(self) -> None:
        """Kill no more, and let a restart that is under way come to its end."""
        self._moment = None
        if self._restarting is not None:
            await self._restarting

    async def _restart(self) -> None:
        assert self.operator is not None
        await self.operator.kill()
        await self.operator.start()


@asynccontextmanager
async def operating(
    episodes: Episodes, folder: Path, proxy: ApiProxy
) -> AsyncIterator[LocalOperator]:
    killer = proxy.on_write
    async with (
        proxy.serving() as url,
        LocalOperator(url, episodes.namespace, folder) as operator,
    ):
        if isinstance(killer, Killer):
            killer.operator = operator
        try:
            yield operator
        finally:
            if isinstance(killer, Killer):
                await killer.stop()


async def check_nothing_is_left(episodes: Episodes, name: str, ended: Ended) -> None:
    results = await episodes.client.list(
        EPISODE_RESULTS, episodes.namespace, labels={"episodes.dev/episode": name}
    )
    assert [r["metadata"]["name"] for r in results] == [ended.episode.status.result_name]
    assert await episodes.pods(name) == []
    policies = await episodes.client.list(
        NETWORK_POLICIES, episodes.namespace, labels={"episodes.dev/episode": name}
    )
    assert len(policies) == 1


async def killed_at(client: KubernetesClient, folder: Path, at: int, moment: Moment) -> str:
    """Run an Episode whose operator is killed at its nth write; which write that was."""
    killer = Killer(at, moment)
    proxy = ApiProxy(await connection.load(), on_write=killer)
    async with (
        Episodes.in_namespace(client, stack.UNWATCHED) as episodes,
        operating(episodes, folder, proxy) as operator,
    ):
        busybox = os.environ["BUSYBOX_IMAGE"]
        spec = scripted(busybox, terminal("echo 1 >> count"), test=ONCE, infraRetryLimit=0)
        await episodes.create("killed", spec)
        try:
            ended = await episodes.finish("killed")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{operator.log()}") from error
        assert ended.verdict == ("Passed", 1, "TestsPassed")
        await check_nothing_is_left(episodes, "killed", ended)
    assert killer.killed_at is not None or killer.seen < at
    return killer.killed_at or "after the last write"


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_killed_at_each_write(
    client: KubernetesClient, tmp_path: Path, moment: Moment
) -> None:
    """Each write is a kill point of an Episode and an operator of its own."""
    at_once = asyncio.Semaphore(AT_ONCE)

    async def killed(at: int) -> str:
        async with at_once:
            folder = tmp_path / str(at)
            folder.mkdir()
            return await killed_at(client, folder, at, moment)

    points = await asyncio.gather(*(killed(at) for at in range(1, WRITES + 1)))
    kinds = {point.rpartition("/")[2] for point in points}
    assert {"networkpolicies", "pods", "status", "episoderesults", "events"} <= kinds
    assert "after the last write" in points, "more writes than kill points"


@pytest.mark.parametrize("cut_after", [2_000, 200_000, 600_000])
async def test_the_exec_connection_is_cut(
    unwatched: Episodes, busybox: str, tmp_path: Path, cut_after: int
) -> None:
    """In mid command and in mid upload: the session goes on where it was."""
    proxy = ApiProxy(await connection.load(), cut_after=cut_after)
    content = "0123456789abcdef" * (400_000 // 16)
    spec = scripted(
        busybox,
        terminal("echo 1 >> count"),
        test=f"test $(wc -c < big) = {len(content)} && test $(wc -l < count) = 1 && "
        "cp count /logs/verifier/reward.txt",
        infraRetryLimit=0,
    )
    files = [{"path": f"/workspace/{name}", "content": content} for name in ("big", "b", "c", "d")]
    spec["task"]["files"] = files[:1]
    spec["agent"]["script"] += [
        {"tool": "write_file", "arguments": {"path": file["path"], "content": content}}
        for file in files[1:2]
    ]
    spec["agent"]["script"].append(terminal("seq 1 60000; sleep 1"))
    async with operating(unwatched, tmp_path, proxy) as operator:
        await unwatched.create("cut", spec)
        try:
            ended = await unwatched.finish("cut")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{operator.log()}") from error
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert proxy.cuts == 1
