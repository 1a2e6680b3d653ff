"""A scripted model server on loopback, and a client for it."""

from collections.abc import AsyncIterator

import pytest

from episode_operator.model import VllmClient
from tests.fakes.vllm_server import MODEL, FakeVllm


@pytest.fixture
async def server() -> AsyncIterator[FakeVllm]:
    """A server of the test's own."""
    async with FakeVllm.running() as running:
        yield running


@pytest.fixture
async def client(server: FakeVllm) -> AsyncIterator[VllmClient]:
    """A client that gives up within seconds."""
    async with VllmClient.open(server.url, MODEL, request_timeout=15.0, retry_budget=4.0) as opened:
        yield opened
