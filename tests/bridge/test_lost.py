"""A trainer that restarts tells what it has lost: once, whatever the bridge is doing then."""

import asyncio
import random
from contextlib import suppress

import pytest
from aiohttp import web

from episode_operator.api.result import Delivery
from episode_operator.kube.client import CONFIG_MAPS, EPISODE_RESULTS
from tests.bridge.outcomes import check_outcome
from tests.bridge.processes import BridgeProcess
from tests.bridge.test_crashes import policies
from tests.bridge.world import Around, World, mark_of, saved, unhindered, until
from tests.fakes.kubernetes_server import Handler
from trainer_bridge.config import UnknownDelivery
from trainer_bridge.run.names import state_name
from trainer_bridge.sinks.base import Demand
from trainer_bridge.training import TrainingGroup

GROUPS = ("run-000000", "run-000001")
REQUESTS = 20
"""The recovery of two groups sends at least as many once the loss is stored."""
SAMPLED = sorted(random.Random(7).sample(range(1, REQUESTS + 1), 6))


def check_recovered(world: World, policy: UnknownDelivery, *groups: str, sends: int = 2) -> None:
    """The groups are dropped, or with the trainer again."""
    check_outcome(world, len(groups))
    again = policy is UnknownDelivery.RESEND
    assert sorted(set(world.trainer.names)) == sorted(groups)
    assert len(world.trainer.names) <= len(groups) * sends
    if again:
        assert world.state.delivered == len(groups)
        assert all(world.trainer.names.count(name) >= 2 for name in groups)
    else:
        assert world.state.dropped == {"LostWithTrainer": len(groups)}
        assert len(world.trainer.names) == len(groups)


@policies
async def test_after_the_delivery_was_noted(world: World, policy: UnknownDelivery) -> None:
    settings = world.settings(unknown_delivery=policy)
    await world.process(settings, 2)
    world.trainer.demand = Demand(lost=GROUPS)
    await world.process(settings, 2)
    check_recovered(world, policy, *GROUPS)


@policies
async def test_before_the_send_has_an_end(world: World, policy: UnknownDelivery) -> None:
    """The trainer restarts before the bridge has its answer."""

    async def restart(group: TrainingGroup) -> None:
        world.trainer.reset()
        await told_lost(world, group.name)

    world.trainer.after = restart
    await world.process(world.settings(unknown_delivery=policy), 1)
    check_recovered(world, policy, GROUPS[0])


@policies
async def test_while_the_delivery_is_noted(world: World, policy: UnknownDelivery) -> None:
    """The API server is slow to take the marks Delivered; meanwhile the trainer restarts."""
    first = True

    async def slow(
        bridge: BridgeProcess, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        nonlocal first
        if first and await mark_of(request) is Delivery.DELIVERED:
            first = False
            await told_lost(world, GROUPS[0])
        return await handler(request)

    world.around = slow
    await world.process(world.settings(unknown_delivery=policy), 1)
    check_recovered(world, policy, GROUPS[0])


async def test_killed_once_the_loss_is_known_while_the_delivery_is_noted(world: World) -> None:
    """The marks Delivered are there, but the trainer has told the bridge that it lost the group."""
    told = False

    async def around(
        bridge: BridgeProcess, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        nonlocal told
        if told:
            return await handler(request)
        told = await mark_of(request) is Delivery.DELIVERED
        if told:
            await told_lost(world, GROUPS[0])
        answer = await handler(request)
        if told:
            bridge.kill()
        return answer

    world.around = around
    await world.killed(world.settings(), 1)
    await world.process(world.settings(), 1)
    check_outcome(world, 1)
    assert world.state.delivered == 0


@policies
async def test_while_the_state_is_saved(world: World, policy: UnknownDelivery) -> None:
    """The group is Delivered by its marks and in memory; the ConfigMap does not say so yet."""
    first = True

    async def slow(
        bridge: BridgeProcess, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        nonlocal first
        state = await saved(request)
        if first and state is not None and state.delivered:
            first = False
            await told_lost(world, GROUPS[0])
        return await handler(request)

    world.around = slow
    await world.process(world.settings(unknown_delivery=policy), 1)
    check_recovered(world, policy, GROUPS[0])


@policies
@pytest.mark.parametrize("number", SAMPLED)
async def test_killed_during_the_recovery(
    world: World, policy: UnknownDelivery, number: int
) -> None:
    """From when the loss is stored on; a send that a kill cuts short may double the second copy."""
    settings = world.settings(unknown_delivery=policy)
    await world.process(settings, 2)
    world.trainer.demand = Demand(lost=GROUPS)
    world.around = killed_after_loss(number)
    await world.killed(settings, 2)
    await world.process(settings, 2)
    if policy is UnknownDelivery.RESEND:
        check_recovered(world, policy, *GROUPS, sends=3)
    else:
        check_recovered(world, policy, *GROUPS)


async def test_a_group_known_to_be_lost_is_not_taken_for_one_that_arrived(world: World) -> None:
    """The trainer still shows it as the newest; the bridge is killed when it knows of the loss."""
    settings = world.settings()
    await world.process(settings, 1)
    world.trainer.arrived = lambda group: True
    world.trainer.demand = Demand(lost=GROUPS[:1])
    world.around = killed_after_loss(1)
    await world.killed(settings, 1)
    await world.process(settings, 1)
    check_recovered(world, UnknownDelivery.DROP, GROUPS[0])


async def test_stopped_while_the_loss_is_stored(world: World) -> None:
    """It is told once only, so SIGTERM waits until it is stored."""
    settings = world.settings()
    await world.process(settings, 1)
    world.trainer.demand = Demand(lost=GROUPS[:1])

    async def stop(
        bridge: BridgeProcess, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        if await saved(request) is not None:
            bridge.stop()
            await asyncio.sleep(0.05)
        return await handler(request)

    world.around = stop
    with suppress(asyncio.CancelledError):
        await world.process(settings, 1)
    assert 0 in world.state.open and world.state.open[0].lost
    world.around = unhindered
    await world.process(settings, 1)
    check_recovered(world, UnknownDelivery.DROP, GROUPS[0])


async def test_results_that_are_gone_are_a_drop(world: World) -> None:
    settings = world.settings(unknown_delivery=UnknownDelivery.RESEND)
    await world.process(settings, 1)
    for name in world.names(EPISODE_RESULTS):
        del world.server.objects[world.path(EPISODE_RESULTS, name)]
    world.trainer.demand = Demand(lost=GROUPS[:1])
    await world.process(settings, 1)
    assert world.state.dropped == {"LostWithTrainer": 1}
    assert world.trainer.names == [GROUPS[0]]


async def test_a_lost_group_is_no_younger_for_it(world: World) -> None:
    settings = world.settings(unknown_delivery=UnknownDelivery.RESEND, max_staleness_steps=2)
    world.trainer.demand = Demand(step=1)
    await world.process(settings, 1)
    world.trainer.demand = Demand(step=9, lost=GROUPS[:1])
    await world.process(settings, 1)
    assert world.state.dropped == {"Stale": 1}
    assert world.trainer.names == [GROUPS[0]]


async def told_lost(world: World, group: str) -> None:
    """Tell the loss, and wait until the bridge has heard of it and stored what it made of it."""
    saves = len(world.server.events)
    world.trainer.demand = Demand(lost=(group,))
    await until(lambda: not world.trainer.demand.lost)
    path = world.path(CONFIG_MAPS, state_name("run"))
    with suppress(TimeoutError):
        await until(
            lambda: any(event.path == path for event in world.server.events[saves:]), seconds=0.5
        )


def killed_after_loss(number: int) -> Around:
    """The next bridge is killed before the request of this number after it has stored a loss."""
    killed: BridgeProcess | None = None
    since = 0

    async def around(
        bridge: BridgeProcess, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        nonlocal killed, since
        if bridge is killed:
            since += 1
            if since == number:
                bridge.kill()
        answer = await handler(request)
        state = await saved(request)
        if killed is None and state is not None and any(each.lost for each in state.open.values()):
            killed = bridge
        return answer

    return around
