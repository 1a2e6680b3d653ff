"""The real runner, built once and run as PID 1 of a process namespace on this machine."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from episode_operator.sandbox.session import Session
from tests.runner.sandbox import LocalSandbox, local_sandbox

SOURCE = Path(__file__).parents[2] / "images" / "runner"


@pytest.fixture(scope="session")
async def runner() -> AsyncIterator[Path]:
    """The runner as `runner install` leaves it."""
    # Commands that run as other users report their state through it. pytest's own temporary
    # folders are closed to them by each pytest that starts.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chmod(folder, 0o755)  # noqa: PTH101
        built = folder / "built"
        await _run("go", "build", "-o", str(built), ".", cwd=SOURCE)
        await _run(str(built), "install", str(folder / "runner"), cwd=folder)
        yield folder / "runner"


async def _run(*command: str, cwd: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env={**os.environ, "CGO_ENABLED": "0"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


@pytest.fixture
async def sandbox(runner: Path) -> AsyncIterator[LocalSandbox]:
    """A fresh sandbox."""
    async with local_sandbox(runner) as box:
        yield box


@pytest.fixture
async def session(sandbox: LocalSandbox) -> AsyncIterator[Session]:
    """A session with a fresh sandbox."""
    async with sandbox.session() as connected:
        yield connected
