"""One server for all tests, emptied before each, or started again where a test has killed it."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.atropos.peers import Peers
from tests.atropos.server import AtroposServer, running
from tests.fakes.tcp_proxy import TcpProxy


@pytest.fixture(scope="session")
async def running_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AtroposServer]:
    """The real server."""
    async with running(tmp_path_factory.mktemp("atropos") / "run-api.log") as found:
        yield found


@pytest.fixture
async def server(running_server: AtroposServer) -> AtroposServer:
    """It, without anything of the tests before."""
    await running_server.empty()
    return running_server


@pytest.fixture
async def proxy(server: AtroposServer) -> AsyncIterator[TcpProxy]:
    """The way of the sink to it."""
    async with TcpProxy(server.port).running() as found:
        yield found


@pytest.fixture
async def peers(server: AtroposServer) -> AsyncIterator[Peers]:
    """The trainer and other environments."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http:
        yield Peers(http, server.url)
