"""Our side: a sink at the server, and waiting for what it learns."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.fakes.tcp_proxy import TcpProxy
from trainer_bridge.sinks.atropos import AtroposSettings, AtroposSink
from trainer_bridge.sinks.base import Demand

GROUP_SIZE = 4
POST = "POST /scored_data"
_WAIT_SECONDS = 30.0


def settings(url: str = "http://atropos.test", **options: Any) -> AtroposSettings:
    """Settings that ask often."""
    known = {"name": "tests", "group_size": GROUP_SIZE, "max_token_length": 4096}
    return AtroposSettings(url=url, **{**known, "poll_seconds": 0.1, **options})


@asynccontextmanager
async def opened(proxy: TcpProxy, **options: Any) -> AsyncIterator[AtroposSink]:
    """A sink that has begun to ask."""
    sink = AtroposSink(settings(proxy.url, **options))
    await sink.open()
    try:
        yield sink
    finally:
        await sink.close()


async def until(
    sink: AtroposSink, wanted: Callable[[Demand], bool]
) -> tuple[Demand, tuple[str, ...]]:
    """The first demand that is wanted, and all that was told as lost up to then."""
    lost: tuple[str, ...] = ()
    async with asyncio.timeout(_WAIT_SECONDS):
        while True:
            demand = await sink.demand()
            lost += demand.lost
            if wanted(demand):
                return demand, lost
            await asyncio.sleep(0.02)


async def ready(sink: AtroposSink) -> Demand:
    """The first demand for groups."""
    return (await until(sink, lambda demand: bool(demand.groups)))[0]


async def away(sink: AtroposSink) -> None:
    """Once the sink has seen that the server is away."""
    await until(sink, lambda demand: demand.groups == 0)
