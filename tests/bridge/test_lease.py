"""One bridge at a time, and one that outlasts an API server that is away."""

import asyncio

import pytest
from aiohttp import web

from episode_operator.api.result import Delivery
from episode_operator.kube import client
from episode_operator.kube.client import EPISODES, LEASES
from tests.bridge.operators import NAMESPACE
from tests.bridge.outcomes import check_outcome
from tests.bridge.processes import BridgeProcess
from tests.bridge.world import RUN, World, mark_of, until
from tests.fakes.kubernetes_server import Handler
from trainer_bridge.config import BridgeConfig
from trainer_bridge.run import lease
from trainer_bridge.run.lease import LeaseLostError
from trainer_bridge.run.names import state_name
from trainer_bridge.training import TrainingGroup

LEASE = LEASES.path(NAMESPACE, state_name(RUN))


def serving(world: World, settings: BridgeConfig) -> BridgeProcess:
    """A bridge that serves until it is stopped."""
    return world.start(settings, lambda bridge: bridge.serve())


async def test_a_second_bridge_waits_for_the_first(world: World) -> None:
    world.operator.at_once = False
    first = serving(world, world.settings(max_num_workers=1))
    await until(lambda: len(world.names(EPISODES)) == 2)
    second = serving(world, world.settings(max_num_workers=1))
    await until(lambda: second.waited)
    assert second.waited == [world.lease["spec"]["holderIdentity"]]
    assert len(world.names(EPISODES)) == 2
    first.stop()
    await until(lambda: second.requests > 6)
    assert world.lease["spec"]["holderIdentity"] not in {"", *second.waited}


async def test_a_bridge_takes_over_from_one_that_is_silent(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "DURATION_SECONDS", 0.5)
    world.operator.at_once = False
    first = serving(world, world.settings(max_num_workers=1))
    await until(lambda: len(world.names(EPISODES)) == 2)
    first.kill()
    await first.ended()
    world.operator.at_once = True
    for name in world.names(EPISODES):
        await world.operator.finish(name)
    second = world.start(world.settings(), lambda bridge: bridge.process(1))
    await asyncio.wait_for(second.main, 20)
    check_outcome(world, 1)
    assert len(second.waited) == 1


async def test_nothing_lands_after_the_lease_is_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark hangs while another bridge takes over: it is given up, and never sent again."""
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.05)
    hangs = asyncio.Event()

    async def hang(
        bridge: BridgeProcess, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        if await mark_of(request) is Delivery.DELIVERED:
            hangs.set()
            await asyncio.Event().wait()
        return await handler(request)

    world.around = hang
    bridge = world.start(world.settings(), lambda bridge: bridge.process(1))
    await hangs.wait()
    world.lease["spec"]["holderIdentity"] = "another"
    events = len(world.server.events)
    with pytest.raises(LeaseLostError, match="another"):
        await asyncio.wait_for(bridge.main, 10)
    changed = {event.path for event in world.server.events[events:]}
    assert changed <= {LEASE}
    assert {mark for mark, _ in world.marks().values()} == {Delivery.SENDING}


async def test_the_creation_of_its_own_lease_seen_again_is_no_other_bridge(world: World) -> None:
    """The answer is lost, so the client repeats the request and is told that the lease exists."""
    lost = False

    async def lose_answer(
        bridge: BridgeProcess, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        nonlocal lost
        answer = await handler(request)
        if not lost and (request.method, request.path) == ("POST", LEASES.path(NAMESPACE)):
            lost = True
            assert request.transport is not None
            request.transport.abort()
        return answer

    world.around = lose_answer
    await world.process(world.settings(), 1)
    assert lost and world.bridges[0].waited == []
    check_outcome(world, 1)


async def test_an_api_server_that_is_away_for_a_while_costs_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For 3 s from just after the trainer has the first group; the client gives up before."""
    monkeypatch.setattr(client, "_ATTEMPTS", 2)
    away = asyncio.Event()

    async def refuse(
        bridge: BridgeProcess, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        return web.Response(status=503) if away.is_set() else await handler(request)

    async def leave(group: TrainingGroup) -> None:
        world.trainer.reset()
        away.set()
        asyncio.get_running_loop().call_later(3, away.clear)

    world.around, world.trainer.after = refuse, leave
    await world.process(world.settings(), 3, seconds=30)
    check_outcome(world, 3)
    assert (world.state.delivered, world.state.unknown) == (3, 0)
    assert sorted(world.trainer.names) == [f"run-00000{index}" for index in range(3)]
