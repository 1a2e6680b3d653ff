"""Whole runs of the trainer's own process, between the real Atropos server and a fake of vLLM."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import aiohttp
import pytest

from tests.atropos.groups import VOCABULARY, group
from tests.atropos.peers import Peers
from tests.atropos.server import AtroposServer, running
from tests.atropos.sinks import GROUP_SIZE, ready, settings
from tests.testbed.stack import ROOT
from tests.trainer.conftest import ENVIRONMENT, Worker
from tests.trainer.control import ControlledVllm, push_of
from trainer_bridge.sinks.atropos import AtroposSink
from trainer_bridge.training import TrainingGroup

STEPS = 4
_WAIT_SECONDS = 180.0


@dataclass
class Runs:
    """Starts the trainer again and again on one output folder."""

    python: Path
    folder: Path
    atropos: AtroposServer
    vllm: ControlledVllm

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def log(self) -> Path:
        """What the last process wrote to stderr."""
        return self.folder / "trainer.log"

    @property
    def pushed(self) -> str:
        return str(self.folder / "pushed")

    @asynccontextmanager
    async def started(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """A process of it, killed at the end."""
        with self.log.open("wb") as log:
            process = await self._start(log)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            print(self.log.read_text())

    async def _start(self, log: IO[bytes]) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(str(self.python), "-m", "examples.trainer"),
            *("--atropos", self.atropos.url, "--vllm", self.vllm.url),
            *("--model", str(self.folder / "model"), "--output", str(self.output)),
            *("--pushed", self.pushed, "--steps", str(STEPS), "--batch-size", str(GROUP_SIZE)),
            *("--opd-weight", "0.5", "--opd-loss", "topk-kl"),
            cwd=ROOT,
            env=ENVIRONMENT,
            stderr=log,
        )

    def lines(self) -> list[dict[str, Any]]:
        """Of steps.jsonl."""
        path = self.output / "steps.jsonl"
        return [json.loads(one) for one in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
async def atropos(tmp_path: Path) -> AsyncIterator[AtroposServer]:
    """The real server."""
    async with running(tmp_path / "run-api.log") as server:
        yield server


@pytest.fixture
async def runs(
    tmp_path: Path, python: Path, worker: Worker, atropos: AtroposServer
) -> AsyncIterator[Runs]:
    """Of a tiny model with the vocabulary of the groups."""
    await asyncio.to_thread(
        worker, "write_model", folder=str(tmp_path / "model"), vocabulary=VOCABULARY
    )
    async with ControlledVllm.running() as vllm:
        yield Runs(python, tmp_path, atropos, vllm)


async def until(wanted: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(_WAIT_SECONDS):
        while not await wanted():
            await asyncio.sleep(0.01)


async def post(runs: Runs, groups: Sequence[TrainingGroup]) -> None:
    """As the bridge does, once a trainer has asked for a batch."""
    sink = AtroposSink(settings(runs.atropos.url))
    await sink.open()
    try:
        await ready(sink)
        for one in groups:
            sink.check(one)
            await sink.send(one)
    finally:
        await sink.close()


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(one.name for one in folder.iterdir())


def sampled_tokens(groups: Sequence[TrainingGroup]) -> list[int]:
    """How many each group has, by which it is known again."""
    counts = []
    for one in groups:
        rows = [record.row for record in one.members]
        counts.append(sum(int(row.mask.sum()) for row in rows if row is not None))
    assert len(set(counts)) == len(counts)
    return counts


async def test_a_run_that_is_killed_goes_on_without_losing_or_doubling_a_group(runs: Runs) -> None:
    groups = [group(seed, tokens=40 + 10 * seed, scored=4) for seed in range(STEPS)]
    held = runs.vllm.hold(f"/collective_rpc {runs.pushed}/step-3")
    async with runs.started() as process:
        await post(runs, groups)
        await asyncio.wait_for(held.came.wait(), _WAIT_SECONDS)
        process.kill()  # the third step is in its checkpoint, and has no line yet
        await process.wait()
    assert [one["step"] for one in runs.lines()] == [0, 1]
    assert runs.vllm.calls[:15] == [
        call for step in range(3) for call in push_of(runs.pushed, f"step-{step}")
    ]

    runs.vllm.calls = []
    held = runs.vllm.hold(f"/collective_rpc {runs.pushed}/step-4")
    async with runs.started() as process:
        await asyncio.wait_for(held.came.wait(), _WAIT_SECONDS)
        process.send_signal(signal.SIGTERM)  # the step under way is finished
        assert [one["step"] for one in runs.lines()] == [0, 1, 2]
        held.released.set()
        assert await asyncio.wait_for(process.wait(), _WAIT_SECONDS) == 0
    assert runs.vllm.calls == push_of(runs.pushed, "step-3") + push_of(runs.pushed, "step-4")
    lines = runs.lines()
    assert [one["step"] for one in lines] == [0, 1, 2, 3]
    assert [one["weight_version"] for one in lines] == [f"step-{n}" for n in (1, 2, 3, 4)]
    assert sorted(one["sampled_tokens"] for one in lines) == sorted(sampled_tokens(groups))
    assert {one["rows"] for one in lines} == {GROUP_SIZE}
    assert {one["distilled_positions"] for one in lines} == {12}
    assert not any(one["ratio_ok"] for one in lines), "these logprobs are made up"
    assert all(one["seconds"]["push"] >= one["seconds"]["pause"] > 0 for one in lines)
    assert names(runs.folder / "pushed") == ["step-4"]
    assert names(runs.output / "checkpoints") == ["step-3", "step-4"]
    assert names(runs.output) == ["checkpoints", "steps.jsonl"]


async def test_a_batch_that_does_not_fit_ends_it_and_is_put_aside(runs: Runs) -> None:
    """Then the server is restarted; the trainer that waits makes itself known again."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http:
        peers = Peers(http, runs.atropos.url)

        async def asked() -> bool:
            body = {"max_token_length": 9, "desired_name": "x", "weight": 1.0, "group_size": 4}
            return "env_id" in await peers.ask("POST", "/register-env", body)

        async with runs.started() as process:
            await until(asked)
            rows = [[1, 2, 3]] * GROUP_SIZE
            bad: dict[str, Any] = {"tokens": rows, "masks": rows, "scores": [0.0] * GROUP_SIZE}
            bad |= {"inference_logprobs": [[1.0, -1.0]] * GROUP_SIZE, "env_id": 0}
            await peers.ask("POST", "/scored_data", bad)
            assert await asyncio.wait_for(process.wait(), _WAIT_SECONDS) == 1
        assert "group 0, row 0: 3 tokens, 3 masks, 2 logprobs; it is in" in runs.log.read_text()
        assert (runs.output / "refused-0.json").exists() and runs.lines() == []

        async with runs.started() as process:
            await until(asked)
            await runs.atropos.kill()
            await runs.atropos.start()
            await until(asked)
            assert (await peers.ask("GET", "/info"))["batch_size"] == GROUP_SIZE
            process.terminate()
            assert await asyncio.wait_for(process.wait(), _WAIT_SECONDS) == 0
        assert runs.lines() == [] and names(runs.folder / "pushed") == ["step-0"]
