"""A bridge is killed or stopped at each moment of a run, and another one goes on."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

import pytest
from aiohttp import web

from episode_operator.api.result import Delivery
from tests.bridge.outcomes import check_outcome
from tests.bridge.processes import BridgeProcess
from tests.bridge.world import Around, World, reward, saved
from tests.fakes.kubernetes_server import Handler
from trainer_bridge.config import UnknownDelivery
from trainer_bridge.sinks.base import (
    NotSentError,
    RefusedError,
    SinkError,
    UnknownArrivalError,
)
from trainer_bridge.training import TrainingGroup

REQUESTS = 74
"""A run of three groups sends at least as many."""
SAMPLED = sorted(random.Random(7).sample(range(3, REQUESTS + 1), 12))
"""All of them take a minute; the first two look for the lease and create it."""
GROUPS = ["run-000000", "run-000001"]
"""Those with something to learn from."""

policies = pytest.mark.parametrize("policy", UnknownDelivery)


def script(episode: str) -> float | None:
    """Group 0: a member has no verdict at first. Group 2: nothing to learn from."""
    if episode == "run-000000-m1":
        return None
    return 1.0 if episode.startswith("run-000002") else reward(episode)


def at(number: int, act: Callable[[BridgeProcess], None]) -> Around:
    """Act just before the request of this number of the first bridge."""

    async def around(
        bridge: BridgeProcess, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        if bridge.token == "bridge-0" and bridge.requests == number:
            act(bridge)
        return await handler(request)

    return around


@policies
@pytest.mark.parametrize("number", SAMPLED)
async def test_killed_before_a_request(world: World, policy: UnknownDelivery, number: int) -> None:
    world.operator.reward = script
    world.around = at(number, BridgeProcess.kill)
    settings = world.settings(unknown_delivery=policy)
    await world.killed(settings, 3)
    await world.process(settings, 3)
    check_outcome(world, 3)
    unknown = world.marked(Delivery.UNKNOWN)
    assert len(unknown) <= 1, "one group is sent at a time"
    if policy is UnknownDelivery.RESEND:
        assert world.state.dropped == {"EqualScores": 1}
    else:
        lost = {"UnknownArrival": len(unknown)} if unknown else {}
        assert world.state.dropped == {"EqualScores": 1, **lost}
        assert {*world.trainer.names, *unknown} == {*GROUPS}


async def test_a_result_that_was_superseded_is_marked_by_the_next_bridge(world: World) -> None:
    """Killed once the state says Delivered, before the results of earlier tries are marked."""
    world.operator.reward = script

    async def around(
        bridge: BridgeProcess, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        answer = await handler(request)
        state = await saved(request)
        if state is not None and state.delivered and bridge is world.bridges[0]:
            bridge.kill()
        return answer

    world.around = around
    await world.killed(world.settings(), 1)
    await world.process(world.settings(), 1)
    check_outcome(world, 1)
    assert world.marks()["run-000000-m1"] == (Delivery.DROPPED, "Superseded")


@pytest.mark.parametrize("number", SAMPLED)
async def test_stopped_at_a_request(world: World, number: int) -> None:
    """SIGTERM: a send that is under way comes to its end, and its end is noted."""
    world.operator.reward = script
    world.around = at(number, BridgeProcess.stop)
    settings = world.settings()
    bridge = world.start(settings, lambda bridge: bridge.process(3))
    with suppress(asyncio.CancelledError):
        await bridge.main
    assert world.lease["spec"]["holderIdentity"] == "", "the next one need not wait"
    await world.process(settings, 3)
    check_outcome(world, 3)
    assert world.marked(Delivery.UNKNOWN) == set()
    assert sorted(world.trainer.names) == GROUPS


@pytest.mark.parametrize("end", ["before", "after"])
async def test_stopped_during_a_send(world: World, end: str) -> None:
    """Before the group has arrived, and after it has: the answer is waited for."""

    async def stop(group: TrainingGroup) -> None:
        world.trainer.reset()
        world.bridges[-1].stop()
        await asyncio.sleep(0.1)

    setattr(world.trainer, end, stop)
    bridge = world.start(world.settings(), lambda bridge: bridge.process(1))
    with pytest.raises(asyncio.CancelledError):
        await bridge.main
    assert (world.state.delivered, world.trainer.names) == (1, GROUPS[:1])
    await world.process(world.settings(), 1)
    check_outcome(world, 1)
    assert world.state.unknown == 0


@policies
@pytest.mark.parametrize("how", ["killed", "unclear"])
@pytest.mark.parametrize(
    ("taken", "proof"), [(True, True), (False, False), (True, None), (False, None)]
)
async def test_a_send_without_an_end(
    world: World, policy: UnknownDelivery, proof: bool | None, how: str, taken: bool
) -> None:
    """The bridge is killed while it waits for the answer, or the answer is none."""

    async def end(group: TrainingGroup) -> None:
        world.trainer.reset()
        if how == "unclear":
            raise UnknownArrivalError("the connection was lost")
        world.bridges[-1].kill()
        await asyncio.sleep(0)

    if taken:
        world.trainer.after = end
    else:
        world.trainer.before = end
    world.trainer.arrived = lambda group: proof
    settings = world.settings(unknown_delivery=policy)
    if how == "killed":
        await world.killed(settings, 1)
    await world.process(settings, 1)
    check_outcome(world, 1)
    again = proof is False or (proof is None and policy is UnknownDelivery.RESEND)
    assert len(world.trainer.names) == taken + again
    delivered = proof is True or again
    assert world.state.dropped == ({} if delivered else {"UnknownArrival": 1})
    assert world.state.unknown == 1


async def test_proof_is_asked_for_before_another_group_is_sent(world: World) -> None:
    """A trainer shows the group that arrived last, so the next one hides the proof."""

    async def end(group: TrainingGroup) -> None:
        if group.name == GROUPS[0]:
            raise NotSentError("busy")
        world.bridges[-1].kill()
        await asyncio.sleep(0)

    async def busy(group: TrainingGroup) -> None:
        if group.name == GROUPS[0]:
            raise NotSentError("busy")

    world.trainer.before, world.trainer.after = busy, end
    settings = world.settings(unknown_delivery=UnknownDelivery.RESEND)
    await world.killed(settings, 2)
    assert world.trainer.names == [GROUPS[1]]
    world.trainer.reset()
    world.trainer.arrived = lambda group: group.name == world.trainer.names[-1]
    await world.process(settings, 2)
    check_outcome(world, 2)
    assert sorted(world.trainer.names) == GROUPS


async def test_a_group_that_did_not_arrive_is_sent_again(world: World) -> None:
    async def busy(group: TrainingGroup) -> None:
        world.trainer.reset()
        raise NotSentError("busy")

    world.trainer.before = busy
    await world.process(world.settings(), 1)
    check_outcome(world, 1)
    assert (world.state.delivered, world.state.unknown) == (1, 0)


async def test_a_group_that_is_refused_is_dropped_for_its_reason(world: World) -> None:
    async def refuse(group: TrainingGroup) -> None:
        raise RefusedError("TooLong", "8 tokens too many")

    world.trainer.before = refuse
    await world.process(world.settings(), 1)
    check_outcome(world, 1)
    assert world.state.dropped == {"TooLong": 1}
    assert set(world.marks().values()) == {(Delivery.DROPPED, "TooLong")}


async def test_a_sink_that_cannot_go_on_ends_the_bridge_and_loses_nothing(world: World) -> None:
    async def fail(group: TrainingGroup) -> None:
        raise SinkError("the disk is full: make room")

    world.trainer.before = fail
    with pytest.raises(SinkError, match="make room"):
        await world.process(world.settings(), 1)
    assert set(world.marks().values()) == {(Delivery.PENDING, None)}
    world.trainer.reset()
    await world.process(world.settings(), 1)
    check_outcome(world, 1)
    assert (world.state.delivered, world.state.unknown) == (1, 0)
