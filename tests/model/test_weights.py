"""Weights that change while a turn is sampled, and servers that are started anew."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from episode_operator.api.agent import Model
from episode_operator.controller.models import ModelPool
from episode_operator.model import (
    Conversation,
    ModelBadResponse,
    ModelChanged,
    ModelUnavailable,
    SamplingConfig,
    VllmClient,
    Waiting,
    detect,
    patience,
)
from tests.fakes import chat
from tests.fakes.vllm_server import GENERATE, MODEL, FakeVllm, Fault, Reply, logprob_of

OPENING = [{"role": "user", "content": "Do it."}]


async def started(client: VllmClient, config: SamplingConfig | None = None) -> Conversation:
    config = config or SamplingConfig(max_tokens=256)
    return await Conversation.start(client, await detect(client), OPENING, sampling=config)


def sampling_bodies(server: FakeVllm) -> list[dict[str, Any]]:
    """The requests for samples, without those that only find out the logprobs mode."""
    bodies = server.bodies(GENERATE)
    return [body for body in bodies if "allowed_token_ids" not in body["sampling_params"]]


async def test_a_paused_server_is_asked_when_it_has_the_new_weights(
    server: FakeVllm, client: VllmClient
) -> None:
    """It would keep the request and sample it with other weights than its salt names."""
    server.labels_weights, server.weights = True, "1"
    conversation = await started(client)
    server.paused = True
    sampling = asyncio.create_task(conversation.sample())
    await asyncio.sleep(0.4)
    assert sampling_bodies(server) == []
    server.weights, server.paused = "2", False
    turn = await sampling
    assert [one.version for one in turn.versions] == ["2"]
    assert [body["cache_salt"] for body in sampling_bodies(server)] == ["weights 2"]


@pytest.mark.parametrize(
    "fault", [None, Fault(path="/is_paused", delay=1.0)], ids=["between questions", "in a question"]
)
async def test_time_that_ends_while_the_server_is_paused_ends_by_the_server(
    server: FakeVllm, client: VllmClient, fault: Fault | None
) -> None:
    """An agent whose time a trainer's pause has eaten is not graded."""
    server.labels_weights, server.weights = True, "1"
    conversation = await started(client)
    server.paused = True
    if fault is not None:
        server.faults.append(fault)
    with Waiting() as waiting, pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await conversation.sample()
    trouble = await waiting.trouble()
    assert isinstance(trouble, ModelUnavailable) and "is paused" in str(trouble)
    assert sampling_bodies(server) == []


async def test_time_that_ends_while_the_server_aborts_ends_by_the_server(
    server: FakeVllm, client: VllmClient
) -> None:
    conversation = await started(client)
    server.replies.extend([Reply(finish_reason="abort")] * 50)
    with Waiting() as waiting, pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await conversation.sample()
    assert "aborts every request" in str(await waiting.trouble())


async def test_an_update_in_mid_turn_samples_nothing_twice(
    server: FakeVllm, client: VllmClient
) -> None:
    """Pause with abort, other weights, resume: as a trainer does it."""
    server.labels_weights, server.weights = True, "1"
    conversation = await started(client)

    def pause(_answer: dict[str, Any]) -> None:
        server.paused = True

    server.replies.extend([Reply(text="He", finish_reason="abort"), Reply(text="llo")])
    server.faults.append(Fault(path=GENERATE, change=pause))
    sampling = asyncio.create_task(conversation.sample())
    await asyncio.sleep(0.4)
    server.weights, server.paused = "2", False
    turn = await sampling
    assert turn.token_ids == [*chat.encode("Hello"), chat.END]
    spans = [(one.version, one.start, one.end) for one in turn.versions]
    assert spans == [("1", 0, 2), ("2", 2, 6)]
    first, second = sampling_bodies(server)
    assert second["token_ids"] == first["token_ids"] + chat.encode("He")
    assert [first["cache_salt"], second["cache_salt"]] == ["weights 1", "weights 2"]
    start = len(first["token_ids"])
    assert turn.logprobs == [logprob_of(start + at, one) for at, one in enumerate(turn.token_ids)]


async def test_a_pause_without_end_is_told(
    server: FakeVllm, client: VllmClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PATIENCE_SECONDS", 0.3)
    server.labels_weights, server.weights = True, "1"
    conversation = await started(client)
    server.paused = True
    with pytest.raises(ModelUnavailable, match="is paused"):
        await conversation.sample()
    server.paused = False
    server.replies.extend([Reply(text="", finish_reason="abort")] * 50)
    with pytest.raises(ModelUnavailable, match="aborts every request"):
        await conversation.sample()


async def test_an_abort_behind_the_end_token_is_an_end(
    server: FakeVllm, client: VllmClient
) -> None:
    ids = (*chat.encode("Yes"), chat.END)
    server.replies.append(Reply(ids=ids, finish_reason="abort"))
    conversation = await started(client)
    turn = await conversation.sample()
    assert not turn.truncated and turn.text == "Yes" and turn.token_ids == list(ids)
    assert len(sampling_bodies(server)) == 1


async def test_a_server_that_dies_in_mid_turn_samples_the_turn_anew(
    server: FakeVllm, client: VllmClient
) -> None:
    """What was sampled before is lost with it, and the label of the weights starts again."""
    server.labels_weights, server.weights = True, "7"
    conversation = await started(client)

    def restart(_answer: dict[str, Any]) -> None:
        server.weights = "default"

    server.replies.extend([Reply(text="He", finish_reason="abort"), Reply(text="llo")])
    server.faults.append(Fault(path=GENERATE, change=restart))
    server.faults.append(Fault(path=GENERATE, drop=True))
    turn = await conversation.sample()
    spans = [(one.version, one.start, one.end) for one in turn.versions]
    assert turn.text == "Hello" and spans == [("7", 0, 2), ("default", 2, 6)]


def _another_model(server: FakeVllm) -> None:
    server.root = "/models/another"


def _shorter_context(server: FakeVllm) -> None:
    server.max_model_len = 2048


def _raw_logprobs(server: FakeVllm) -> None:
    server.logprobs_mode = "raw"


RESTARTS = pytest.mark.parametrize(
    ("restart", "told"),
    [
        (_another_model, "/models/another"),
        (_shorter_context, "2048, not 4096"),
        (_raw_logprobs, "raw logprobs"),
    ],
    ids=["model", "context", "logprobs"],
)


@RESTARTS
async def test_what_another_server_sampled_is_not_taken(
    server: FakeVllm, client: VllmClient, restart: Callable[[FakeVllm], None], told: str
) -> None:
    """It was started with other options after the Episode's start, and no request failed."""
    conversation = await started(client, SamplingConfig(temperature=0.6, max_tokens=64))
    state = conversation.state()
    restart(server)
    with pytest.raises(ModelChanged, match=told) as caught:
        await conversation.sample()
    assert not caught.value.permanent
    assert conversation.state() == state


async def test_raw_logprobs_are_no_change_where_they_are_the_same(
    server: FakeVllm, client: VllmClient
) -> None:
    conversation = await started(client)
    server.logprobs_mode = "raw"
    await conversation.sample()


@RESTARTS
async def test_the_next_episode_knows_the_server_anew(
    server: FakeVllm, restart: Callable[[FakeVllm], None], told: str
) -> None:
    pool = ModelPool(retry_seconds=1.0)
    model = Model.model_validate({"endpoint": server.url, "name": MODEL})
    try:
        first = await pool.get(model, logprobs=True)
        assert await pool.get(model, logprobs=True) is first
        restart(server)
        second = await pool.get(model, logprobs=True)
        assert second.capabilities == await detect(second.client) != first.capabilities
        assert second.specials is not first.specials, told
        assert await pool.get(model, logprobs=True) is second
    finally:
        await pool.close()


async def test_an_adapter_may_be_loaded_anew(server: FakeVllm, client: VllmClient) -> None:
    """Trainers of adapters publish each step from another place, under the same name."""

    def adapter(answer: dict[str, Any]) -> None:
        answer["data"][0].update(parent="base", root="/adapters/step-2")

    server.faults.extend([Fault(path="/v1/models", change=adapter)] * 2)
    one = await client.served_model()
    assert one.root is None and one == await client.served_model()


async def test_an_aborted_question_is_asked_again(server: FakeVllm, client: VllmClient) -> None:
    """An abort while the mode is found out said "raw", and ended the Episode for good."""

    def abort(answer: dict[str, Any]) -> None:
        answer["choices"][0].update(finish_reason="abort", token_ids=[], logprobs=None)

    server.faults.append(Fault(path=GENERATE, change=abort))
    assert (await detect(client)).logprobs_mode == "processed"


async def test_logits_are_not_logprobs(server: FakeVllm, client: VllmClient) -> None:
    server.logprobs_mode = "raw_logits"
    with pytest.raises(ModelBadResponse, match="--logprobs-mode processed_logprobs"):
        await detect(client)
