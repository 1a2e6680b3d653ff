"""Many Episodes that ask for one model at once."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from episode_operator.api.agent import Model
from episode_operator.controller.models import ModelPool
from episode_operator.model import ModelUnavailable
from tests.fakes.vllm_server import MODEL, FakeVllm, Fault

LIST = "/v1/models"


@pytest.fixture
async def pool() -> AsyncIterator[ModelPool]:
    opened = ModelPool(retry_seconds=1.0)
    yield opened
    await opened.close()


def asked_for(server: FakeVllm) -> Model:
    return Model(endpoint=server.url, name=MODEL)


async def test_one_of_them_asks_what_the_server_can_do(server: FakeVllm, pool: ModelPool) -> None:
    found = await asyncio.gather(*(pool.get(asked_for(server), logprobs=False) for _ in range(5)))
    assert all(one is found[0] for one in found)
    assert len(server.bodies(LIST)) == 1


async def test_a_server_that_fails_is_waited_for_by_all_at_once(
    server: FakeVllm, pool: ModelPool
) -> None:
    server.faults.append(Fault(path=LIST, status=500, lasting=True))
    gets = (pool.get(asked_for(server), logprobs=False) for _ in range(5))
    ends = await asyncio.gather(*gets, return_exceptions=True)
    assert {type(end) for end in ends} == {ModelUnavailable}
    assert 2 <= len(server.bodies(LIST)) <= 3, "one of them asks, until its budget is used up"
    server.faults.clear()
    assert (await pool.get(asked_for(server), logprobs=False)).capabilities.model == MODEL, (
        "it is asked again"
    )


async def test_one_that_leaves_stops_nobody_else(server: FakeVllm, pool: ModelPool) -> None:
    server.faults.append(Fault(path=LIST, delay=0.3))
    first = asyncio.create_task(pool.get(asked_for(server), logprobs=False))
    second = asyncio.create_task(pool.get(asked_for(server), logprobs=False))
    await asyncio.sleep(0.1)
    first.cancel()
    assert (await second).capabilities.model == MODEL
    assert len(server.bodies(LIST)) == 1
