"""A real S3 server, started once."""

from collections.abc import AsyncIterator

import pytest

from tests.stores import gateway
from tests.stores.gateway import Gateway


@pytest.fixture(scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """The server."""
    async with gateway.running(tmp_path_factory.mktemp("versitygw")) as found:
        yield found
