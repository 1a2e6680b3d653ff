"""Episodes that wait in mid command, and show that nothing was done twice."""

import asyncio

from episode_operator.api.episode import Episode
from episode_operator.kube.client import EPISODE_RESULTS
from episode_operator.lifecycle.pods import MAIN_CONTAINER
from tests.cluster import kubectl
from tests.cluster.episodes import Ended, Episodes, scripted, terminal

COUNT = 8
GATE = "/workspace/gate"
ONCE = (
    "test $(cat /workspace/before) = 1 && test $(cat /workspace/count) = 1 && "
    "test $(cat /workspace/after) = 1 && echo 1 > /logs/verifier/reward.txt"
)
"""Each command has run once: `test` takes no two lines."""


async def start(episodes: Episodes, busybox: str) -> dict[str, Episode]:
    """Episodes whose second command waits."""
    spec = scripted(
        busybox,
        terminal("echo 1 >> before"),
        terminal(f"echo 1 >> count; until test -e {GATE}; do sleep 0.2; done"),
        terminal("echo 1 >> after"),
        test=ONCE,
    )
    names = [f"held-{number}" for number in range(COUNT)]
    await asyncio.gather(*(episodes.create(name, spec) for name in names))
    return {name: await episodes.until_running(name) for name in names}


async def finish(episodes: Episodes, running: dict[str, Episode]) -> None:
    """Let all go on: each ends well, in the pod in which it was, with one result."""
    for episode in running.values():
        where = ("-n", episodes.namespace, str(episode.status.pod_name), "-c", MAIN_CONTAINER)
        await kubectl.check("exec", *where, "--", "touch", GATE)
    ended: list[Ended] = await asyncio.gather(*(episodes.finish(name) for name in running))
    assert [one.verdict for one in ended] == [("Passed", 1, "TestsPassed")] * COUNT
    assert all(one.episode.status.attempts == [] for one in ended)
    pods = [episode.status.pod_uid for episode in running.values()]
    assert [one.result.spec.pod_uid for one in ended] == pods
    assert len(await episodes.client.list(EPISODE_RESULTS, episodes.namespace)) == COUNT
