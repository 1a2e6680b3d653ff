"""Lost connections and lost servers: no group is lost unnoticed, doubled, or posted for another."""

import asyncio
import logging
from pathlib import Path

import aiohttp
import pytest

from tests.atropos.groups import changed, group
from tests.atropos.peers import Peers
from tests.atropos.reading import assert_is
from tests.atropos.server import AtroposServer, running
from tests.atropos.sinks import POST, away, opened, ready, until
from tests.fakes.tcp_proxy import TcpProxy
from trainer_bridge.sinks.base import Demand, NotSentError, UnknownArrivalError


def named(*seeds: int) -> tuple[str, ...]:
    return tuple(group(seed).name for seed in seeds)


async def test_a_reply_that_is_lost_is_unknown_and_can_be_proven(
    proxy: TcpProxy, peers: Peers
) -> None:
    await peers.start_trainer(batch_size=8)
    async with opened(proxy) as sink:
        await ready(sink)
        await sink.send(group(1))
        proxy.lose_reply_to = POST
        with pytest.raises(UnknownArrivalError, match="no answer of Atropos to /scored_data"):
            await sink.send(group(2))
        assert await sink.arrived(group(2))
        assert not await sink.arrived(group(1)) and not await sink.arrived(group(3))
        assert proxy.requests.count(POST) == 2  # it was not posted again by itself

        await ready(sink)
        batch = await peers.batch()
        assert batch is not None and len(batch) == 2
        for found, sent in zip(batch, (group(1), group(2)), strict=True):
            assert_is(found, sent, env_id=0)


async def test_one_value_that_differs_is_no_proof(proxy: TcpProxy, peers: Peers) -> None:
    await peers.start_trainer(batch_size=8)
    async with opened(proxy) as sink:
        await ready(sink)
        sent = group(2, scored=5)
        await sink.send(sent)
        assert await sink.arrived(sent)
        first = sent.members[0]
        spec = first.result.spec.model_copy(update={"reward": 0.5})
        rewarded = first.result.model_copy(update={"spec": spec})
        assert not await sink.arrived(changed(sent, 0, result=rewarded))
        assert not await sink.arrived(changed(sent, 0, distillation=None))


async def test_a_cut_network_costs_a_new_id_and_nothing_else(proxy: TcpProxy, peers: Peers) -> None:
    await peers.start_trainer(batch_size=8)
    async with opened(proxy) as sink:
        await ready(sink)
        await sink.send(group(1))
        await proxy.refuse()
        await away(sink)
        with pytest.raises(NotSentError):
            await sink.send(group(2))
        await proxy.listen()
        demand, lost = await until(sink, lambda demand: bool(demand.groups))
        assert (demand.groups, lost) == (5, ())
        await sink.send(group(2))
        assert (await peers.standing(1))["env_weight"] == 1.0  # the old one is disconnected
        batch = await peers.batch()
    assert batch is not None and len(batch) == 2
    assert_is(batch[0], group(1), env_id=0)
    assert_is(batch[1], group(2), env_id=1)


async def test_a_restarted_server_has_lost_its_queue(
    server: AtroposServer, proxy: TcpProxy, peers: Peers
) -> None:
    await peers.start_trainer(batch_size=8)
    async with opened(proxy) as sink:
        await ready(sink)
        for seed in range(3):  # two of them are handed out
            await sink.send(group(seed))
        assert await peers.batch() is not None
        await until(sink, lambda demand: demand.groups == 5)
        await sink.send(group(3))
        await server.kill()
        await away(sink)
        with pytest.raises(NotSentError):
            await sink.send(group(4))
        await server.start()
        await asyncio.sleep(0.3)
        with pytest.raises(NotSentError):
            await sink.send(group(4))
        assert await sink.demand() == Demand(groups=0, step=1)
        await peers.start_trainer(batch_size=8)
        demand, lost = await until(sink, lambda demand: bool(demand.groups))
        assert (demand.groups, demand.step, lost) == (6, 0, named(2, 3))
        assert (await sink.demand()).lost == ()
        await sink.send(group(4))
        assert (await peers.standing(0))["self_queue_size"] == 1
    assert proxy.requests.count(POST) == 5


async def test_an_id_that_another_environment_has_now_is_neither_used_nor_disconnected(
    server: AtroposServer, proxy: TcpProxy, peers: Peers
) -> None:
    await peers.start_trainer(batch_size=8)
    async with opened(proxy) as sink:
        await ready(sink)
        await sink.send(group(1))
        await proxy.refuse()  # so that the sink comes last
        await server.kill()
        await server.start()
        await peers.start_trainer(batch_size=8)
        taken = await peers.register_environment(group_size=4, weight=3.0)
        assert taken == 0
        await proxy.listen()
        _, lost = await until(sink, lambda demand: bool(demand.groups))
        assert lost == named(1)
        await sink.send(group(2))
        assert (await peers.standing(taken))["self_queue_size"] == 0
        assert (await peers.standing(1))["self_queue_size"] == 1
        assert (await peers.standing(taken))["env_weight"] == 0.75
    assert (await peers.standing(taken))["env_weight"] == 1.0


async def test_an_id_that_changes_hands_between_two_answers_is_not_used(
    proxy: TcpProxy, peers: Peers, tmp_path: Path
) -> None:
    """The sink has not asked since; the new server answers as the old one would."""
    await peers.start_trainer(batch_size=8)
    async with (
        opened(proxy, poll_seconds=2) as sink,
        running(tmp_path / "second.log") as second,
        aiohttp.ClientSession() as http,
    ):
        await ready(sink)
        new = Peers(http, second.url)
        await new.start_trainer(batch_size=8)
        assert await new.register_environment(group_size=4) == 0
        before = len(proxy.requests)
        await until(sink, lambda _: len(proxy.requests) > before)
        asked = len(proxy.requests)
        proxy.to = second.port
        proxy.cut()
        await asyncio.sleep(0.1)  # a post at this very moment would be Unknown
        with pytest.raises(NotSentError, match="connection to Atropos was lost"):
            await sink.send(group(1))
        assert len(proxy.requests) == asked


async def test_groups_that_wait_under_an_earlier_id_are_lost_too(
    server: AtroposServer, proxy: TcpProxy, peers: Peers
) -> None:
    await peers.start_trainer(batch_size=8)
    async with opened(proxy) as sink:
        await ready(sink)
        await sink.send(group(1))
        proxy.cut()
        await until(sink, lambda _: proxy.requests.count("POST /register-env") == 2)
        await until(sink, lambda demand: demand.groups == 5)
        await sink.send(group(2))
        await server.kill()
        await server.start()
        await peers.start_trainer(batch_size=8)
        _, lost = await until(sink, lambda demand: bool(demand.groups))
        assert lost == named(1, 2)


async def test_a_server_that_was_emptied_has_forgotten_us(
    proxy: TcpProxy, peers: Peers, caplog: pytest.LogCaptureFixture
) -> None:
    """A trainer may call /reset_data; the connection lives on."""
    await peers.start_trainer(batch_size=8, starting_step=3)
    async with opened(proxy, poll_seconds=0.5) as sink:
        await ready(sink)
        await sink.send(group(1))
        await _reset(peers)
        with caplog.at_level(logging.WARNING, "trainer_bridge"):
            await peers.start_trainer(batch_size=8)
            assert await peers.register_environment(group_size=4) == 0
            demand, lost = await until(sink, lambda demand: demand.step == 0)
        assert (demand.groups, lost) == (6, named(1))
        assert "Atropos was restarted: 1 groups were lost with it" in caplog.messages
        await sink.send(group(2))
        assert (await peers.standing(1))["self_queue_size"] == 1


async def test_a_group_that_the_server_puts_aside_is_unknown(proxy: TcpProxy, peers: Peers) -> None:
    """It was emptied since its last answer, and our id has another size now."""
    await peers.start_trainer(batch_size=8)
    async with opened(proxy, poll_seconds=4) as sink:
        await ready(sink)
        await _reset(peers)
        await peers.start_trainer(batch_size=8)
        assert await peers.register_environment(group_size=8) == 0
        with pytest.raises(UnknownArrivalError, match="buffered"):
            await sink.send(group(1))
        with pytest.raises(NotSentError):
            await sink.send(group(2))
        assert proxy.requests.count(POST) == 1


async def test_a_registration_whose_answer_was_lost_is_disconnected(
    proxy: TcpProxy, peers: Peers
) -> None:
    await peers.start_trainer(batch_size=8)
    proxy.lose_reply_to = "POST /register-env"
    async with opened(proxy, min_batch_allocation=0.5) as sink:
        await ready(sink)
        for seed in range(2):
            await sink.send(group(seed))
        batch = await peers.batch()  # None if it waited for the share of the first registration
    assert batch is not None
    assert [found["env_id"] for found in batch] == [1, 1]


async def test_nothing_waits_for_an_environment_that_has_left(
    proxy: TcpProxy, peers: Peers
) -> None:
    await peers.start_trainer(batch_size=4)
    other = await peers.register_environment(group_size=4)
    body = {"tokens": [[1]] * 4, "masks": [[1]] * 4, "scores": [0, 1, 0, 1], "env_id": other}
    async with opened(proxy, min_batch_allocation=0.5) as sink:
        await ready(sink)
        await peers.ask("POST", "/scored_data", body)
        assert await peers.batch() is None
        assert (await peers.standing(other))["env_weight"] == 0.5
    assert (await peers.standing(other))["env_weight"] == 1.0
    assert await peers.batch() is not None


async def test_leaving_is_no_error_when_the_server_is_gone(
    server: AtroposServer, proxy: TcpProxy, peers: Peers, caplog: pytest.LogCaptureFixture
) -> None:
    await peers.start_trainer(batch_size=4)
    async with opened(proxy) as sink:
        await ready(sink)
        await server.kill()
    assert "could not disconnect from Atropos" in caplog.text


async def _reset(peers: Peers) -> None:
    async with peers.http.request("GET", f"{peers.url}/reset_data") as response:
        assert response.status == 200
