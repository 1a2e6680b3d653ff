"""Fixtures on the real cluster. They never skip: without a cluster every test here fails."""

import os
import uuid
from collections.abc import AsyncIterator

import pytest

from tests.cluster import kubectl


@pytest.fixture(scope="session", autouse=True)
def cluster() -> str:
    """The kubeconfig; `make test` brings the testbed up and sets it."""
    path = os.environ.get("KUBECONFIG")
    assert path, "KUBECONFIG is not set: run `make test`, or `make testbed` and export it"
    return path


@pytest.fixture
async def namespace() -> AsyncIterator[str]:
    """A namespace of the test's own, deleted afterwards."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    await kubectl.check("create", "namespace", name)
    yield name
    await kubectl.check("delete", "namespace", name, "--wait=false")
