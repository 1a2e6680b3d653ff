"""The client against a server that misbehaves: typed errors, and repeats only where they help."""

import asyncio
import time
from typing import Any

import pytest

from episode_operator.model import (
    ContextLengthExceeded,
    ModelBadRequest,
    ModelBadResponse,
    ModelError,
    ModelNotFound,
    ModelOverloaded,
    ModelTimeout,
    ModelUnauthorized,
    ModelUnavailable,
    ScaleOutDisabled,
    VllmClient,
    Waiting,
    waiting,
)
from episode_operator.model.transport import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    pause_seconds,
)
from tests.fakes import chat, scoring
from tests.fakes.vllm_server import GENERATE, MODEL, RENDER, FakeVllm, Fault, Reply, logprob_of

QUESTION = [{"role": "user", "content": "Hello."}]
PROMPT = [101, 102]


async def generate(client: VllmClient) -> list[int]:
    sampled = await client.generate(PROMPT, sampling_params={"max_tokens": 64})
    return sampled.token_ids


async def test_a_sample(server: FakeVllm, client: VllmClient) -> None:
    server.replies.append(Reply(text="Hi", weights="v1"))
    sampled = await client.generate(
        PROMPT, sampling_params={"max_tokens": 9, "logprobs": 2}, cache_salt="weights v1"
    )
    assert sampled.token_ids == [*chat.encode("Hi"), chat.END]
    assert sampled.logprobs == [logprob_of(2 + at, one) for at, one in enumerate(sampled.token_ids)]
    assert [len(row) for row in sampled.top] == [2, 2, 2]
    (body,) = server.bodies(GENERATE)
    assert body["cache_salt"] == "weights v1" and body["token_ids"] == PROMPT


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (400, "This model's maximum context length is 8 tokens.", ContextLengthExceeded),
        (
            400,
            "Input length (9) exceeds model's maximum context length (8).",
            ContextLengthExceeded,
        ),
        (400, "no such parameter", ModelBadRequest),
        (422, "x" * 5000, ModelBadRequest),
        (401, "Unauthorized", ModelUnauthorized),
        (403, "Scale-out endpoints are disabled.", ScaleOutDisabled),
        (403, "RBAC: access denied", ModelUnauthorized),
        (404, "The model `x` does not exist. Valid aliases: policy.", ModelNotFound),
        (404, "Not Found", ScaleOutDisabled),
        (413, "Request Entity Too Large", ModelBadRequest),
        (501, "The model does not support generate tokens API", ModelBadRequest),
        (
            400,
            "The decoder prompt (length 9) plus the number of requested output tokens (at least 1) "
            "is longer than the maximum model length of 9.",
            ContextLengthExceeded,
        ),
    ],
)
async def test_what_a_repeat_cannot_help_is_asked_once(
    server: FakeVllm,
    client: VllmClient,
    status: int,
    message: str,
    expected: type[ModelError],
) -> None:
    server.faults.append(Fault(path=GENERATE, status=status, message=message))
    with pytest.raises(expected) as caught:
        await generate(client)
    assert type(caught.value) is expected and caught.value.permanent
    assert len(str(caught.value)) < 600
    assert len(server.bodies(GENERATE)) == 1


@pytest.mark.parametrize(
    "fault",
    [
        Fault(path=GENERATE, status=429),
        Fault(path=GENERATE, status=503, headers={"Retry-After": "1"}),
        Fault(path=GENERATE, status=500),
        Fault(path=GENERATE, drop=True),
    ],
    ids=["429", "503", "500", "dropped"],
)
async def test_what_passes_is_asked_again(
    server: FakeVllm, client: VllmClient, fault: Fault
) -> None:
    server.faults.append(fault)
    started = time.monotonic()
    assert await generate(client) == [*chat.encode("Done."), chat.END]
    assert len(server.bodies(GENERATE)) == 2
    if "Retry-After" in fault.headers:
        assert time.monotonic() - started >= 1.0


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault(path=RENDER, status=429), ModelOverloaded),
        (Fault(path=RENDER, status=502, message="<html>Bad Gateway</html>"), ModelUnavailable),
        (Fault(path=RENDER, drop=True), ModelUnavailable),
    ],
    ids=["429", "502", "dropped"],
)
async def test_repeats_end_with_the_budget(
    server: FakeVllm, fault: Fault, expected: type[ModelError]
) -> None:
    server.faults.extend([fault] * 50)
    async with VllmClient.open(server.url, MODEL, retry_budget=0.8) as client:
        with pytest.raises(expected) as caught:
            await client.render(QUESTION)
    assert not caught.value.permanent
    assert 2 <= len(server.bodies(RENDER)) <= 3, "the third pause alone is as long as the budget"


@pytest.mark.parametrize("asked", [None, 2.0])
@pytest.mark.parametrize("failures", [1, 2, 6, 1000])
def test_pauses_grow_to_a_bound_and_are_never_the_same(failures: int, asked: float | None) -> None:
    longest = min(FIRST_PAUSE_SECONDS * 2.0 ** min(failures, 50), LONGEST_PAUSE_SECONDS)
    pauses = {pause_seconds(failures, asked) for _ in range(200)}
    assert len(pauses) > 190
    assert min(pauses) >= (asked or 0.0) + longest / 2
    assert max(pauses) <= (asked or 0.0) + longest
    assert max(pauses) - min(pauses) > longest / 3


async def test_what_vllm_says_to_a_wrong_key(server: FakeVllm, client: VllmClient) -> None:
    """Its one error without a message inside."""
    server.faults.append(Fault(path=GENERATE, status=401, body={"error": "Unauthorized"}))
    with pytest.raises(ModelUnauthorized, match="Unauthorized"):
        await generate(client)


async def trouble_at_the_end_of_time(client: VllmClient) -> ModelError | None:
    """What the server is charged with when the time of a request for a sample is over."""
    with Waiting() as waiting, pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await generate(client)
    return await waiting.trouble()


async def test_time_that_ends_while_the_server_fails_ends_by_the_server(
    server: FakeVllm, client: VllmClient
) -> None:
    server.faults.append(Fault(path=GENERATE, status=500, lasting=True))
    trouble = await trouble_at_the_end_of_time(client)
    assert isinstance(trouble, ModelUnavailable) and "500" in str(trouble)


async def test_time_that_ends_while_the_server_works_just_ends(
    server: FakeVllm, client: VllmClient
) -> None:
    server.faults.append(Fault(path=GENERATE, delay=1.0))
    assert await trouble_at_the_end_of_time(client) is None


async def test_a_pause_with_a_request_under_way_is_the_servers_doing(
    server: FakeVllm, client: VllmClient
) -> None:
    """A trainer's pause with mode=keep freezes the request; nothing of it is answered."""
    server.labels_weights = server.paused = True
    server.faults.append(Fault(path=GENERATE, delay=1.0))
    trouble = await trouble_at_the_end_of_time(client)
    assert isinstance(trouble, ModelUnavailable) and "is paused" in str(trouble)


@pytest.mark.parametrize(
    "fault",
    [Fault(path="/is_paused", delay=1.0), Fault(path="/is_paused", drop=True, lasting=True)],
    ids=["hangs", "breaks off"],
)
async def test_a_server_that_does_not_even_tell_whether_it_is_paused_fails(
    server: FakeVllm, client: VllmClient, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "ANSWER_SECONDS", 0.5)
    server.faults.extend([Fault(path=GENERATE, delay=1.0), fault])
    assert isinstance(await trouble_at_the_end_of_time(client), ModelUnavailable)


async def test_a_failure_that_has_passed_is_forgotten(server: FakeVllm, client: VllmClient) -> None:
    server.faults.append(Fault(path=GENERATE, status=500))
    server.faults.append(Fault(path="/weight_info", status=400))
    with Waiting() as seen, pytest.raises(TimeoutError):
        async with asyncio.timeout(2.0):
            await generate(client)
            with pytest.raises(ModelBadRequest):
                await client.weight_version()
            server.paused = server.labels_weights = True
            await asyncio.sleep(10.0)
    assert len(server.bodies(GENERATE)) == 2
    assert await seen.trouble() is None


async def test_of_several_requests_the_one_that_fails_counts(
    server: FakeVllm, client: VllmClient
) -> None:
    server.faults.append(Fault(path=GENERATE, status=500, lasting=True))
    server.faults.append(Fault(path=RENDER, status=500))
    with Waiting() as seen, pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await asyncio.gather(generate(client), client.render(QUESTION))
    assert len(server.bodies(RENDER)) == 2
    assert GENERATE in str(await seen.trouble())


async def test_a_caller_that_is_stopped_is_told_no_failure(
    server: FakeVllm, client: VllmClient
) -> None:
    """An operator that stops while a server fails must not record that as an end."""
    server.faults.append(Fault(path=GENERATE, status=500, lasting=True))
    asking = asyncio.create_task(generate(client))
    await asyncio.sleep(0.3)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_server_that_is_not_there() -> None:
    async with VllmClient.open("http://127.0.0.1:9", MODEL, retry_budget=0.1) as client:
        with pytest.raises(ModelUnavailable, match=r"model\.endpoint"):
            await client.served_model()


async def test_a_slow_answer_is_not_waited_for_twice(server: FakeVllm) -> None:
    server.faults.append(Fault(path=GENERATE, delay=1.0))
    async with VllmClient.open(server.url, MODEL, request_timeout=0.3) as client:
        with pytest.raises(ModelTimeout, match="requestTimeoutSeconds"):
            await generate(client)
    assert len(server.bodies(GENERATE)) == 1


def _shorten(answer: dict[str, Any]) -> None:
    answer["choices"][0]["logprobs"]["content"].pop()


def _clamp(answer: dict[str, Any]) -> None:
    answer["choices"][0]["logprobs"]["content"][0]["logprob"] = -9999.0


def _not_a_number(answer: dict[str, Any]) -> None:
    answer["choices"][0]["logprobs"]["content"][0]["logprob"] = float("nan")


def _other_id(answer: dict[str, Any]) -> None:
    answer["choices"][0]["logprobs"]["content"][0]["token_id"] += 1


@pytest.mark.parametrize(
    "fault",
    [
        Fault(path=GENERATE, change=_shorten),
        Fault(path=GENERATE, change=_clamp),
        Fault(path=GENERATE, change=_not_a_number),
        Fault(path=GENERATE, change=_other_id),
        Fault(path=GENERATE, raw=b"[]"),
        Fault(path=GENERATE, raw=b"<html>"),
        Fault(path=GENERATE, raw=b"{}"),
    ],
    ids=["lengths", "clamped", "NaN", "ids", "list", "html", "empty"],
)
async def test_an_answer_that_does_not_fit_is_refused(
    server: FakeVllm, client: VllmClient, fault: Fault
) -> None:
    server.faults.append(fault)
    with pytest.raises(ModelBadResponse):
        await generate(client)
    assert len(server.bodies(GENERATE)) == 1


async def test_a_model_that_is_not_served_is_named_with_those_that_are(server: FakeVllm) -> None:
    async with VllmClient.open(server.url, "gpt") as client:
        with pytest.raises(ModelNotFound, match=r"'gpt'.*policy"):
            await client.served_model()
        with pytest.raises(ModelNotFound):
            await client.render(QUESTION)


async def test_an_api_key_is_sent(server: FakeVllm) -> None:
    async with VllmClient.open(server.url, MODEL, api_key="secret") as client:
        assert (await client.served_model()).max_model_len == 4096


async def test_scores_are_those_of_every_id_but_the_first(
    server: FakeVllm, client: VllmClient
) -> None:
    ids = [100, 110, 120, 130]
    scores = await client.score(ids)
    expected = [scoring.logprob(ids[:at], one) for at, one in enumerate(ids) if at]
    assert scores.tolist() == pytest.approx(expected)
    (body,) = server.bodies(GENERATE)
    assert body["sampling_params"]["skip_reading_prefix_cache"] is True


def _no_scores(answer: dict[str, Any]) -> None:
    answer["prompt_logprobs"] = None


def _one_score_less(answer: dict[str, Any]) -> None:
    answer["prompt_logprobs"][2] = {}


@pytest.mark.parametrize("change", [_no_scores, _one_score_less])
async def test_missing_scores_are_refused(
    server: FakeVllm, client: VllmClient, change: Any
) -> None:
    server.faults.append(Fault(path=GENERATE, change=change))
    with pytest.raises(ModelBadResponse):
        await client.score([100, 110, 120, 130])
