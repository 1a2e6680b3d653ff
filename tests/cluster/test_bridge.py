"""The trainer bridge on real Episodes and the real Atropos server."""

import asyncio
from pathlib import Path
from typing import Any

from episode_operator.kube.client import EPISODES, PODS
from tests.cluster import bridges
from tests.cluster.bridges import SCORES, World
from tests.cluster.episodes import is_ready
from tests.fakes.tcp_proxy import TcpProxy
from trainer_bridge.config import BridgeConfig
from trainer_bridge.run.bridge import Bridge


def atropos_sink(url: str) -> dict[str, Any]:
    return {"kind": "atropos", "url": url}


async def test_serve_gives_the_trainer_what_the_results_hold(
    world: World, tmp_path: Path, busybox: str
) -> None:
    """8 tasks x 4 Episodes with known scores, a teacher, and one task with nothing to learn."""
    world.policy.same_score.add("3")
    settings = world.config(
        bridges.write_tasks(tmp_path, busybox, 8),
        atropos_sink(world.atropos.url),
        episode={"distillation": {"topK": 2}},
    )
    await world.trainer.peers.start_trainer(batch_size=4, num_steps=8)
    async with bridges.open_run(settings) as context:
        taking = asyncio.create_task(world.trainer.take_until(32))
        await Bridge(context).serve()
        await taking
        await world.trainer.take()
        state = context.state
    assert state.delivered >= 8
    assert state.dropped.keys() <= {"RunEnded"}
    await world.check_each_once_or_dropped()
    sequences = world.trainer.sequences
    scores = sorted(one["scores"] for one in sequences[:32])
    assert scores == sorted([*(SCORES * 7), *([0.5] * 4)])
    assert all(any(one["distill_token_ids"]) for one in sequences)
    assert await world.left_episodes() == []


async def test_a_group_that_cannot_complete_is_dropped_and_the_others_go_on(
    world: World, tmp_path: Path, busybox: str
) -> None:
    """One task's tests write no reward, another's members all score alike, a pod is deleted."""
    tasks = bridges.write_tasks(tmp_path, busybox, 3)
    (tasks / "task-0" / "tests" / "test.sh").write_text("#!/bin/sh\ntrue\n")
    world.policy.same_score.add("1")
    settings = world.config(tasks, atropos_sink(world.atropos.url), env={"max_reruns": 1})
    await world.trainer.peers.start_trainer(batch_size=4)
    async with bridges.serving(settings) as context:
        await _delete_a_pod(world, "task number 2")
        await world.trainer.take_until(4)
        async with asyncio.timeout(300):
            while not {"Incomplete", "EqualScores"} <= context.state.dropped.keys():
                await asyncio.sleep(0.5)
        state = context.state
    assert state.no_verdict["RewardMissing"] >= 1
    await _end_run(settings, world)
    await world.check_each_once_or_dropped()
    assert {one["scores"] for one in world.trainer.sequences} <= set(SCORES)


async def test_a_lost_reply_a_restarted_server_and_a_late_trainer(
    world: World, tmp_path: Path, busybox: str
) -> None:
    """The bridge comes first; a reply is lost; the server forgets everything in mid run."""
    atropos, trainer = world.atropos, world.trainer
    proxy = TcpProxy(atropos.port)
    settings = world.config(bridges.write_tasks(tmp_path, busybox, 3), atropos_sink(proxy.url))
    async with proxy.running():
        async with bridges.serving(settings) as context:
            await asyncio.sleep(3)
            assert context.state.next_group == 0, "no trainer, no groups"
            proxy.lose_reply_to = "POST /scored_data"
            await trainer.peers.start_trainer(batch_size=4)
            await trainer.take_until(4)
            async with asyncio.timeout(120):
                while context.state.unknown < 1 or context.state.delivered < 2:
                    await asyncio.sleep(0.2)
            async with asyncio.timeout(120):  # a group is there that the trainer will not take
                while not (await trainer.peers.ask("GET", "/status"))["queue_size"]:
                    await asyncio.sleep(0.2)
            await asyncio.sleep(2.5)  # the bridge has seen it there
            await atropos.kill()
            await atropos.start()
            await trainer.peers.start_trainer(batch_size=4)
            await trainer.take_until(len(trainer.sequences) + 4)
            async with asyncio.timeout(120):
                while not context.state.dropped.get("LostWithTrainer"):
                    await asyncio.sleep(0.2)
        await _end_run(settings, world)
    await world.check_each_once_or_dropped()


async def _delete_a_pod(world: World, instruction: str) -> None:
    """Delete the first ready pod of an Episode with this in its instruction."""
    async with asyncio.timeout(120):
        while True:
            for episode in await world.client.list(EPISODES, world.namespace):
                if instruction not in episode["spec"]["task"]["instruction"]:
                    continue
                own = {"episodes.dev/episode": episode["metadata"]["name"]}
                for pod in await world.client.list(PODS, world.namespace, labels=own):
                    if is_ready(pod):
                        await world.client.delete(PODS, world.namespace, pod["metadata"]["name"])
                        return
            await asyncio.sleep(0.1)


async def _end_run(settings: BridgeConfig, world: World) -> None:
    """A trainer that has taken all its steps: the bridge comes to an end, with no group open.

    The trainer takes what is there before, and a group that was whole and is still delivered.
    """
    await world.trainer.take()
    await world.atropos.empty()
    await world.trainer.peers.start_trainer(batch_size=4, starting_step=5, num_steps=5)
    async with bridges.open_run(settings) as context:
        await Bridge(context).serve()
        assert context.state.open == {}
    await world.trainer.take()
