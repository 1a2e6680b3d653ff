"""Weights that change in the middle of Episodes, on a real vLLM: the rows stay exact.

A row is exact when each of its spans has the logprobs that the span's own weights give again.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest

from episode_operator.api.result import WeightSpan
from episode_operator.model import VllmClient
from episode_operator.results.payload import TokenRow
from tests.cluster import kubectl, node
from tests.cluster.episodes import Ended, Episodes, scripted
from tests.cluster.local_operator import operating
from tests.cluster.trainer import FLAT, Trainer, write_flat_weights
from tests.cluster.vllm import tolerance
from tests.testbed import stack
from tests.testbed.chart import WEIGHTS
from tests.testbed.forward import forwarded
from tests.testbed.vllm import SERVED_MODEL

MAX_TOKENS = 24
IN_MID_TURN = 6
"""Tokens after which the first turn is still under way: the policy's tool calls have some 35."""


@asynccontextmanager
async def connected() -> AsyncIterator[Trainer]:
    """A trainer, over a connection of its own to the server that runs now."""
    write_flat_weights()
    async with (
        forwarded(stack.MODEL_SERVICE, 8000, namespace=stack.NAMESPACE, env=os.environ) as url,
        # The server ends idle connections, which kubectl does not tell.
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
    ):
        yield Trainer(session, url)


@pytest.fixture
async def trainer() -> AsyncIterator[Trainer]:
    """The trainer of the testbed's server; afterwards the server is what it was."""
    async with connected() as one:
        try:
            yield one
        finally:
            await one.restore()


def spec(image: str, model: dict[str, object], **more: Any) -> dict[str, Any]:
    """An Episode of two turns, the first cut off at MAX_TOKENS."""
    return scripted(
        image,
        task={
            "image": image,
            "workdir": "/workspace",
            "instruction": "Write the word zebra to the file /workspace/ticket.txt.",
        },
        agent={"kind": "Model", "toolsets": ["terminal"], "maxTurns": 2},
        model={**model, "sampling": {"temperature": 1.0, "maxTokens": MAX_TOKENS}, **more},
    )


def check_spans(row: TokenRow, spans: list[WeightSpan]) -> None:
    """They cover what was sampled, and nothing else, once."""
    covered = np.zeros(len(row.tokens), dtype=int)
    for span in spans:
        covered[span.start : span.end] += 1
    assert (covered == row.mask).all()
    assert [span.start for span in spans] == sorted(span.start for span in spans)


async def check_scores(trainer: Trainer, row: TokenRow, spans: list[WeightSpan]) -> None:
    """Each span has the logprobs of its own weights, and not those of the other ones."""
    ids = row.tokens.tolist()
    scores = {}
    async with VllmClient.open(trainer.url, SERVED_MODEL) as client:
        for version, weights in (("default", WEIGHTS), ("flat", FLAT)):
            await trainer.load(weights)
            scores[version] = np.concatenate([[0.0], await client.score(ids)])
    for version in {span.version for span in spans}:
        at = np.concatenate([np.arange(s.start, s.end) for s in spans if s.version == version])
        other = "flat" if version == "default" else "default"
        difference = {name: np.abs(scores[name] - row.logprobs)[at].max() for name in scores}
        assert difference[version] <= tolerance(), (version, difference)
        assert difference[other] > 10 * tolerance(), (version, difference)


async def finished(episodes: Episodes, name: str) -> tuple[Ended, TokenRow, list[WeightSpan]]:
    """The Episode, its row and its spans, of a single attempt."""
    ended = await episodes.finish(name, seconds=480)
    assert ended.verdict == ("Passed", 1, "TestsPassed"), ended.result.spec.message
    assert ended.episode.status.attempts == []
    row, spans = await episodes.row(ended), ended.result.spec.weight_versions
    check_spans(row, spans)
    return ended, row, spans


@pytest.mark.parametrize("mode", ["abort", "keep", "wait"])
async def test_an_update_in_mid_turn(
    episodes: Episodes,
    image: str,
    model: dict[str, object],
    trainer: Trainer,
    mode: str,
) -> None:
    before = await trainer.sampled()
    await episodes.create("updated", spec(image, model))
    await trainer.until_sampled(before + IN_MID_TURN)
    await trainer.pause(mode)
    await trainer.publish(FLAT, "flat")
    await trainer.resume()
    _, row, spans = await finished(episodes, "updated")
    assert [span.version for span in spans][:2] == ["default", "flat"]
    assert {span.version for span in spans[1:]} == {"flat"}
    in_one_turn = row.turn[spans[0].end - 1] == row.turn[spans[1].start] == 0
    assert in_one_turn == (mode != "wait"), "a server that waits updates between two turns"
    extra = await trainer.sampled() - before - int(row.mask.sum())
    assert extra <= 4, "the question for the logprobs mode, a token that was under way; no turn"
    await check_scores(trainer, row, spans)


async def test_the_operator_dies_while_the_server_is_paused(
    unwatched: Episodes,
    image: str,
    local_model: dict[str, object],
    trainer: Trainer,
    tmp_path: Path,
) -> None:
    """The turn under way is lost with it; all of it is sampled by the new weights."""
    async with operating(unwatched, tmp_path) as operator:
        before = await trainer.sampled()
        await unwatched.create("killed", spec(image, local_model))
        await trainer.until_sampled(before + IN_MID_TURN)
        await trainer.pause("keep")
        await operator.kill()
        await operator.start()
        await trainer.publish(FLAT, "flat")
        await trainer.resume()
        _, row, spans = await finished(unwatched, "killed")
    assert {span.version for span in spans} == {"flat"}
    assert row.turn[row.mask].min() == 0
    await check_scores(trainer, row, spans)


async def test_many_aborts_in_one_turn(
    episodes: Episodes,
    image: str,
    model: dict[str, object],
    trainer: Trainer,
) -> None:
    """One before the first token, others after some; no weights change."""
    await episodes.create("aborted", spec(image, model))
    async with asyncio.timeout(240):
        while not await trainer.abort():
            await asyncio.sleep(0.02)
    aborts = 1
    for _ in range(4):
        await trainer.until_sampled(await trainer.sampled() + 3)
        aborts += await trainer.abort()
    assert aborts >= 3, "the turn ended before it was aborted"
    _, row, spans = await finished(episodes, "aborted")
    assert {span.version for span in spans} == {"default"}
    turns = int(row.turn[row.mask].max()) + 1
    assert len(spans) == turns, "the parts of a turn are one span"
    await check_scores(trainer, row, spans)


async def test_an_episode_with_old_weights_ends(
    episodes: Episodes, image: str, model: dict[str, object], trainer: Trainer
) -> None:
    """At the end of the turn in which the weights got a new name; and it is not retried."""
    before = await trainer.sampled()
    await episodes.create("stale", spec(image, model, staleness={"versions": 0}))
    await trainer.until_sampled(before + IN_MID_TURN)
    await trainer.pause("keep")
    await trainer.name("another")
    await trainer.resume()
    ended = await episodes.finish("stale", seconds=480)
    assert ended.verdict == ("NoVerdict", None, "Stale")
    assert "'another'" in ended.result.spec.message
    assert ended.episode.status.attempts == []
    assert await episodes.pods("stale") == []
    spans = ended.result.spec.weight_versions
    assert [span.version for span in spans] == ["default", "another"]
    check_spans(await episodes.row(ended), spans)


@pytest.mark.alone
async def test_the_server_is_started_anew_in_mid_turn(
    episodes: Episodes, image: str, model: dict[str, object]
) -> None:
    """What it sampled of the turn is lost with it. Its weights are the first ones, and so named."""
    try:
        async with connected() as trainer:
            await trainer.pause("abort")
            await trainer.publish(FLAT, "flat")
            await trainer.resume()
            before = await trainer.sampled()
            await episodes.create("restarted", spec(image, model))
            await trainer.until_sampled(before + IN_MID_TURN)
        await kill_server()
        _, row, spans = await finished(episodes, "restarted")
        assert {span.version for span in spans} == {"default"}
        async with connected() as trainer:
            await check_scores(trainer, row, spans)
    finally:
        async with connected() as trainer:
            await trainer.restore()


async def kill_server() -> None:
    """SIGKILL vLLM; the kubelet starts its container again."""
    selector = f"app.kubernetes.io/instance={stack.RELEASE},app.kubernetes.io/component=vllm"
    (pod,) = await kubectl.items("pods", namespace=stack.NAMESPACE, selector=selector)
    found = node.processes(pod["metadata"]["uid"], "vllm.entrypoints.openai.api_server")
    assert found, "no vLLM on this machine"
    for pid in found:
        os.kill(pid, signal.SIGKILL)
