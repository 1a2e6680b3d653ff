"""Groups that are posted to the real server, and what a trainer fetches."""

import asyncio
import logging
from dataclasses import replace

import numpy as np
import pytest

from tests.atropos.groups import changed, group
from tests.atropos.peers import Peers
from tests.atropos.reading import assert_is
from tests.atropos.server import AtroposServer
from tests.atropos.sinks import GROUP_SIZE, POST, opened, ready, until
from tests.fakes.tcp_proxy import TcpProxy
from trainer_bridge.sinks.base import (
    Demand,
    NotSentError,
    RefusedError,
    SinkError,
    UnknownArrivalError,
)


async def test_nothing_is_posted_before_a_trainer_has_started(
    proxy: TcpProxy, peers: Peers
) -> None:
    async with opened(proxy) as sink:
        assert await sink.demand() == Demand(groups=0)
        await peers.register_trainer(batch_size=4)
        while "POST /register-env" not in proxy.requests:
            await asyncio.sleep(0.02)
        with pytest.raises(NotSentError, match="no trainer has started"):
            await sink.send(group())
        assert await sink.demand() == Demand(groups=0)
        assert POST not in proxy.requests

        assert await peers.batch() is None
        await ready(sink)
        await sink.send(group())
        found = await peers.batch()
        assert found is not None
        assert_is(found[0], group(), env_id=0)


@pytest.mark.parametrize("gzip_level", [0, 1])
async def test_a_trainer_fetches_exactly_what_was_recorded(
    gzip_level: int, proxy: TcpProxy, peers: Peers
) -> None:
    sizes = [40, 50, 60, 300]
    scored = [0, 9, 500, 0]
    sent = [group(seed, tokens=tokens, scored=scored[seed]) for seed, tokens in enumerate(sizes)]
    await peers.start_trainer(batch_size=16)
    async with opened(proxy, gzip_level=gzip_level) as sink:
        await ready(sink)
        await asyncio.gather(*map(sink.send, sent))
        batch = await peers.batch()
    assert batch is not None and len(batch) == len(sent)
    for found in batch:
        ours = sent[sizes.index(len(found["tokens"][0]))]
        assert_is(found, ours, env_id=0)
        assert found["messages"] is None
        assert found["generation_params"] == {
            "model": "policy",
            "logprobs_mode": "processed",
            "temperature": 1.0,
            "top_p": 1.0,
            "top_k": 0,
            "min_p": 0.0,
            "max_tokens": 2048,
        }


async def test_conversations_go_along_unchanged(proxy: TcpProxy, peers: Peers) -> None:
    await peers.start_trainer(batch_size=4)
    async with opened(proxy, include_messages=True) as sink:
        await ready(sink)
        sink.check(group())
        await sink.send(group())
        batch = await peers.batch()
    assert batch is not None
    assert batch[0]["messages"] == [record.messages for record in group().members]


async def test_demand_is_what_the_queue_has_room_for(proxy: TcpProxy, peers: Peers) -> None:
    await peers.start_trainer(batch_size=8, starting_step=5, num_steps=7)
    async with opened(proxy, max_batches_offpolicy=2, poll_seconds=0.05) as sink:
        assert await ready(sink) == Demand(groups=4, step=5)
        for index in range(5):
            await sink.send(group(index))
            assert (await sink.demand()).groups == max(0, 3 - index)
        assert await peers.batch() is not None  # forms two batches, and one group is left
        demand, lost = await until(sink, lambda demand: demand.step != 5)
        assert (demand, lost) == (Demand(groups=0, step=7, finished=True), ())


async def test_groups_of_others_count_too(proxy: TcpProxy, peers: Peers) -> None:
    await peers.start_trainer(batch_size=8)
    other = await peers.register_environment(group_size=2)
    async with opened(proxy, max_batches_offpolicy=1) as sink:
        await ready(sink)
        for _ in range(2):
            body = {"tokens": [[1], [2]], "masks": [[1], [2]], "scores": [0, 1], "env_id": other}
            await peers.ask("POST", "/scored_data", body)
        await until(sink, lambda demand: demand.groups == 1)


@pytest.mark.parametrize("batch_size", [2, 6])
async def test_a_batch_that_such_groups_never_fill_is_refused(
    batch_size: int, proxy: TcpProxy, peers: Peers
) -> None:
    await peers.start_trainer(batch_size=batch_size)
    async with opened(proxy) as sink:
        with pytest.raises(SinkError, match=f"batch size {batch_size} is no multiple"):
            await ready(sink)
        with pytest.raises(NotSentError, match="no multiple"):
            await sink.send(group())
        assert not {POST, "POST /register-env"} & set(proxy.requests)


async def test_a_value_that_is_not_finite_never_leaves(proxy: TcpProxy, peers: Peers) -> None:
    await peers.start_trainer(batch_size=4)
    async with opened(proxy) as sink:
        await ready(sink)
        for value in (np.nan, -np.inf):
            whole = group()
            row = whole.members[1].row
            assert row is not None
            logprobs = row.logprobs.copy()
            logprobs[-1] = value
            broken = changed(whole, 1, row=replace(row, logprobs=logprobs))
            with pytest.raises(RefusedError, match=f"logprobs: {value} at 40") as refused:
                sink.check(broken)
            assert refused.value.reason == "NonFinite"
            with pytest.raises(RefusedError, match="not finite"):  # though nobody has checked it
                await sink.send(broken)
        assert POST not in proxy.requests


async def test_what_the_server_refuses_is_told_in_short(proxy: TcpProxy, peers: Peers) -> None:
    await peers.start_trainer(batch_size=4)
    messages = [{"role": "user", "text": "no content " * 1000}]
    async with opened(proxy, include_messages=True) as sink:
        await ready(sink)
        with pytest.raises(RefusedError, match="answered 422") as refused:
            await sink.send(changed(group(), 0, messages=messages))
        assert refused.value.reason == "Rejected"
        assert len(str(refused.value)) < 600


async def test_the_trainers_limit_of_tokens_counts_too(proxy: TcpProxy, peers: Peers) -> None:
    await peers.start_trainer(batch_size=4, max_token_len=43)
    async with opened(proxy) as sink:
        sink.check(group(tokens=40))
        await ready(sink)
        with pytest.raises(RefusedError, match="hello-3: 43 tokens; fewer than 43") as refused:
            sink.check(group(tokens=40))
        assert refused.value.reason == "TooLong"
        sink.check(group(tokens=39))


async def test_no_answer_in_time_is_unknown_and_may_be_proven_later(
    server: AtroposServer, proxy: TcpProxy, peers: Peers
) -> None:
    await peers.start_trainer(batch_size=4)
    async with opened(proxy, send_seconds=0.5, poll_seconds=4) as sink:
        await ready(sink)
        async with server.stopped():
            with pytest.raises(UnknownArrivalError, match="no answer"):
                await sink.send(group())
        assert await sink.arrived(group())
        assert not await sink.arrived(group(1))


async def test_a_large_batch_is_told_with_its_size(
    proxy: TcpProxy, peers: Peers, caplog: pytest.LogCaptureFixture
) -> None:
    await peers.start_trainer(batch_size=2 * GROUP_SIZE)
    async with opened(proxy, warn_batch_bytes=10_000) as sink:
        await ready(sink)
        with caplog.at_level(logging.WARNING, "trainer_bridge"):
            await sink.send(group(tokens=20))
            assert not caplog.records
            await sink.send(group(tokens=500))
            await sink.send(group(tokens=500))
    (said,) = caplog.messages
    assert "a batch of groups such as the last is 0.1 MB of JSON" in said
