"""One vLLM process for all tests."""

from collections.abc import Iterator

import pytest

from tests.vllm.servers import front_ends


@pytest.fixture(scope="session")
def urls() -> Iterator[dict[str, str]]:
    """Where each of servers.SERVED is."""
    with front_ends() as running:
        yield running
