"""What a run meets besides crashes: objects that vanish or are refused, and its own end."""

import asyncio
import time
from pathlib import Path

import pytest
from aiohttp import web

from episode_operator.kube.client import CONFIG_MAPS, EPISODE_RESULTS, EPISODES, LEASES
from episode_operator.results.objects import ObjectStore
from tests.bridge.operators import NAMESPACE
from tests.bridge.outcomes import check_outcome
from tests.bridge.processes import BridgeProcess
from tests.bridge.world import RUN, World, reward, until
from tests.fakes.kubernetes_server import Handler
from trainer_bridge.config import BridgeConfig
from trainer_bridge.run import bridge as bridge_module
from trainer_bridge.run import episodes
from trainer_bridge.run.groups import INCOMPLETE
from trainer_bridge.run.names import state_name
from trainer_bridge.run.pacing import FIRST_PAUSE_SECONDS
from trainer_bridge.run.state import RunState, StateError
from trainer_bridge.sinks.base import Demand

LEASE = LEASES.path(NAMESPACE, state_name(RUN))


def serving(world: World, settings: BridgeConfig) -> BridgeProcess:
    """A bridge that serves until it is stopped."""
    return world.start(settings, lambda bridge: bridge.serve())


async def test_a_new_run_over_what_an_old_one_left_is_refused(world: World) -> None:
    await world.process(world.settings(), 1)
    del world.server.objects[world.path(CONFIG_MAPS, state_name(RUN))]
    told = f"kubectl delete .*episoderesults.* -n {NAMESPACE} -l episodes.dev/run={RUN}"
    with pytest.raises(StateError, match=told):
        await world.process(world.settings(), 1)
    assert len(world.trainer.names) == 1


def test_the_state_of_large_groups_fits_into_a_config_map() -> None:
    """Delivered groups are remembered only as long as there is room; 32 are open."""
    state = RunState(uid="u")
    for index in range(1024):
        state.start("endless-terminals/task_000000_0123456789", members=512, step=index)
        for member in range(512):
            state.rerun(index, member, "ModelUnavailable")
        if index >= 32:
            state.deliver(index - 32)
    assert len(state.recent) > 1, "it remembers some"
    assert len(state.model_dump_json(exclude_defaults=True)) < 1 << 20


async def test_the_result_of_a_member_that_was_deleted_is_made_again(world: World) -> None:
    world.operator.at_once = False
    bridge = world.start(world.settings(), lambda bridge: bridge.process(1))
    await until(lambda: len(world.names(EPISODES)) == 2)
    await finished_without_result(world, "run-000000-m0")
    await world.operator.finish("run-000000-m1")
    await until(lambda: "run-000000-m0-r1" in world.names(EPISODES), seconds=20)
    await world.operator.finish("run-000000-m0-r1")
    await asyncio.wait_for(bridge.main, 20)
    check_outcome(world, 1)
    assert world.state.no_verdict == {"Unreadable": 1}


async def finished_without_result(world: World, name: str) -> None:
    """The Episode is finished, and what it gave is gone."""
    await world.operator.finish(name)
    for result in world.names(EPISODE_RESULTS):
        if result.startswith(name):
            del world.server.objects[world.path(EPISODE_RESULTS, result)]


async def test_an_episode_that_was_deleted_is_run_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch does not tell it, the next list does."""
    monkeypatch.setattr(episodes, "_LIST_SECONDS", 0.2)
    world.operator.at_once = False
    bridge = world.start(world.settings(), lambda bridge: bridge.process(1))
    await until(lambda: len(world.names(EPISODES)) == 2)
    await world.operator.client.delete(EPISODES, NAMESPACE, "run-000000-m0")
    await world.operator.finish("run-000000-m1")
    await until(lambda: "run-000000-m0-r1" in world.names(EPISODES), seconds=20)
    await world.operator.finish("run-000000-m0-r1")
    await asyncio.wait_for(bridge.main, 20)
    check_outcome(world, 1)
    assert world.state.no_verdict == {"Deleted": 1}


async def test_a_blob_that_its_store_lost_is_made_again(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "objects"
    folder.mkdir()
    world.operator.store, world.operator.tokens = ObjectStore(folder.as_uri()), 100_000
    world.operator.at_once = False
    settings = world.settings(object_store=folder.as_uri())
    bridge = world.start(settings, lambda bridge: bridge.process(1))
    await until(lambda: len(world.names(EPISODES)) == 2)
    await world.operator.write_result("run-000000-m0")
    [blob] = [path for path in folder.rglob("tokens-*")]
    blob.unlink()
    await world.operator.finish("run-000000-m0")
    await world.operator.finish("run-000000-m1")
    await until(lambda: "run-000000-m0-r1" in world.names(EPISODES))
    await world.operator.finish("run-000000-m0-r1")
    await asyncio.wait_for(bridge.main, 20)
    check_outcome(world, 1)
    assert world.state.no_verdict == {"Unreadable": 1}


async def test_an_episode_that_the_api_server_refuses_drops_its_group(world: World) -> None:
    async def refuse(
        bridge: BridgeProcess, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        if request.method == "POST" and "run-000000-m1" in await request.text():
            return web.json_response({"reason": "Invalid", "message": "spec.task"}, status=422)
        return await handler(request)

    world.around = refuse
    await world.process(world.settings(), 2)
    assert world.state.dropped == {"TaskUnreadable": 1}
    assert world.trainer.names == ["run-000001"]
    assert world.names(EPISODES) == []


async def test_making_groups_ends_when_the_trainer_wants_no_more(world: World) -> None:
    world.trainer.demand = Demand(groups=0, step=9, finished=True)
    await world.process(world.settings(), 100)
    assert world.trainer.names == []


async def test_what_is_open_when_the_trainer_is_finished_is_dropped(world: World) -> None:
    world.operator.at_once = False
    world.trainer.demand = Demand(groups=1)
    bridge = serving(world, world.settings())
    await until(lambda: len(world.names(EPISODES)) == 2)
    world.trainer.demand = Demand(groups=0, finished=True)
    await asyncio.wait_for(bridge.main, 20)
    assert world.state.dropped == {"RunEnded": 1}
    assert world.names(EPISODES) == [] and world.trainer.names == []


async def test_leftovers_of_closed_groups_are_deleted_and_open_ones_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.process(world.settings(), 1)
    monkeypatch.setattr(bridge_module, "_SWEEP_SECONDS", 0.05)
    world.operator.at_once = False
    closed = set(world.names(EPISODE_RESULTS))
    assert len(closed) == 2
    bridge = world.start(world.settings(result_ttl_seconds=0), lambda bridge: bridge.process(2))
    await until(lambda: len(world.names(EPISODES)) == 2)
    await world.operator.write_result("run-000001-m0")
    await until(lambda: not closed & set(world.names(EPISODE_RESULTS)))
    await asyncio.sleep(0.3)
    assert len(world.names(EPISODE_RESULTS)) == 1 and len(world.names(EPISODES)) == 2
    for name in world.names(EPISODES):
        await world.operator.finish(name)
    await asyncio.wait_for(bridge.main, 20)
    assert sorted(world.trainer.names) == ["run-000000", "run-000001"]
    assert world.names(EPISODES) == []


async def test_groups_without_verdicts_make_the_next_ones_wait(world: World) -> None:
    """The first two come to nothing, then the cluster is well again."""
    began: dict[str, float] = {}

    async def noted(_: BridgeProcess, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method == "POST" and request.path == EPISODES.path(NAMESPACE):
            name: str = (await request.json())["metadata"]["name"]
            began.setdefault(name.rpartition("-m")[0], time.monotonic())
        return await handler(request)

    world.around = noted
    world.operator.reward = lambda episode: reward(episode) if episode >= "run-000002" else None
    await world.process(world.settings(max_reruns=0, max_num_workers=1), 3)
    check_outcome(world, 3)
    assert world.state.dropped == {INCOMPLETE: 2}
    first, second, third = (began[f"run-00000{index}"] for index in range(3))
    assert second - first > FIRST_PAUSE_SECONDS
    assert third - second > 2 * FIRST_PAUSE_SECONDS
