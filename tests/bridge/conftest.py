"""A world of its own for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.bridge.world import World, world_in


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """With an API server, an operator and a trainer, and no bridge yet."""
    async with world_in(tmp_path, monkeypatch) as found:
        yield found
