"""What a server can score, how it is asked, and what of its answers is taken."""

import asyncio
from typing import Any

import numpy as np
import pytest

from episode_operator.model import (
    ContextLengthExceeded,
    ModelBadResponse,
    Scorer,
    TeacherMismatch,
    VllmClient,
    detect_scoring,
)
from episode_operator.model import scoring as module
from tests.fakes import scoring
from tests.fakes.vllm_server import GENERATE, FakeVllm, Fault

IDS = [1000 + 7 * at for at in range(120)]


async def scorer(client: VllmClient, *, top_k: int = 3, given_ids: int = 0) -> Scorer:
    """A scorer of what the server says that it can do."""
    return Scorer(client, await detect_scoring(client, top_k=top_k, given_ids=given_ids))


def expected(first: int, ids: list[int] = IDS) -> list[float]:
    """The values of `ids` from `first`."""
    return [scoring.logprob(ids[:at], ids[at]) for at in range(first, len(ids))]


async def test_v1_is_asked_for_the_whole_prompt_and_never_for_cached_rows(
    server: FakeVllm, client: VllmClient
) -> None:
    found = await scorer(client)
    assert not found.capabilities.scores_given_ids
    scores = await found.score(IDS, first=100, top_k=3)
    assert scores.sampled_logprobs == pytest.approx(expected(100))
    body = server.bodies(GENERATE)[-1]["sampling_params"]
    assert (body["prompt_logprobs"], body["skip_reading_prefix_cache"]) == (3, True)
    assert body["detokenize"] is False
    assert scores.prompt_tokens == 120


async def test_v2_is_asked_for_the_wanted_rows_in_slices(
    server: FakeVllm, client: VllmClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.scoring.runner = "V2"
    monkeypatch.setattr(module, "SLICE_VALUES", 40)  # ten rows of k + 1 = 4 values
    found = await scorer(client, given_ids=2)
    given = [[500 + at, 600 + at][: at % 3] for at in range(55)]
    scores = await found.score(IDS, first=65, top_k=3, given=given)
    assert scores.sampled_logprobs == pytest.approx(expected(65))
    values = [scoring.logprob(IDS[: 65 + at], one) for at, ids in enumerate(given) for one in ids]
    assert scores.given_logprobs == pytest.approx(values)
    for row in range(55):
        best = scoring.top(IDS[: 65 + row], 3)
        assert scores.token_ids[row].tolist() == [one for one, _ in best]
    answered = server.scoring.computed[2:]
    assert max(answered[1:]) <= 10 + 2 * scoring.BLOCK
    assert scores.prompt_tokens == 120


async def test_v2_asks_again_when_wanted_rows_are_cached(
    server: FakeVllm, client: VllmClient
) -> None:
    server.scoring.runner = "V2"
    found = await scorer(client)
    first = await found.score(IDS, first=65, top_k=3)
    again = await found.score(IDS, first=65, top_k=3)
    assert np.array_equal(first.sampled_logprobs, again.sampled_logprobs)
    assert np.array_equal(first.logprobs, again.logprobs)
    assert (first.prompt_tokens, again.prompt_tokens) == (120, 240)
    salts = [body.get("cache_salt") for body in server.bodies(GENERATE)[-3:]]
    assert salts[0] is salts[1] is None
    assert salts[2]


async def test_the_cache_of_other_weights_is_not_read(server: FakeVllm, client: VllmClient) -> None:
    server.scoring.runner = "V2"
    server.labels_weights, server.weights = True, "a"
    found = await scorer(client)
    await found.score(IDS, first=65, top_k=3)
    server.weights = "b"
    await found.score(IDS, first=65, top_k=3)
    bodies = [body for body in server.bodies(GENERATE) if "cache_salt" in body]
    assert [body["cache_salt"] for body in bodies] == ["weights a", "weights b"]
    assert server.scoring.computed[-2:] == [120, 120]


async def test_an_aborted_request_is_asked_again(server: FakeVllm, client: VllmClient) -> None:
    found = await scorer(client)

    def abort(answer: dict[str, Any]) -> None:
        answer["prompt_logprobs"] = None
        answer["choices"][0]["finish_reason"] = "abort"

    server.faults.append(Fault(path=GENERATE, change=abort))
    scores = await found.score(IDS, first=100, top_k=3)
    assert scores.sampled_logprobs == pytest.approx(expected(100))


@pytest.mark.parametrize("runner", ["V1", "V2"])
async def test_a_server_without_enough_logprobs_is_refused(
    server: FakeVllm, client: VllmClient, runner: Any
) -> None:
    server.scoring.runner = runner
    with pytest.raises(TeacherMismatch, match=r"--max-logprobs 52 or lower distillation\.topK"):
        await detect_scoring(client, top_k=52)


async def test_the_students_tokens_need_a_server_that_takes_them(
    server: FakeVllm, client: VllmClient
) -> None:
    with pytest.raises(TeacherMismatch, match="V2 model runner"):
        await detect_scoring(client, top_k=5, given_ids=5)
    server.scoring.runner = "V2"
    with pytest.raises(TeacherMismatch, match=r"--max-logprobs 52 or lower sampling\.topLogprobs"):
        await detect_scoring(client, top_k=5, given_ids=51)
    assert (await detect_scoring(client, top_k=51, given_ids=50)).scores_given_ids


async def test_what_could_fell_a_server_is_not_asked(
    server: FakeVllm, client: VllmClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WHOLE_ANSWER_VALUES", 360)
    found = await scorer(client)
    before = len(server.bodies(GENERATE))
    with pytest.raises(ContextLengthExceeded, match=r"lower distillation\.topK to 2"):
        await found.score(IDS, first=100, top_k=3)
    server.max_model_len = 100
    short = await scorer(client)
    with pytest.raises(ContextLengthExceeded, match="--max-model-len"):
        await short.score(IDS[:100], first=50, top_k=2)
    assert len(server.bodies(GENERATE)) == before + 2
    assert (await short.score(IDS[:99], first=50, top_k=2)).prompt_tokens == 99


@pytest.mark.parametrize(
    "value",
    [None, "", "bm8gYXJyYXk=", "%", [[1.0]], scoring.named_scores([7], [[1, 2]])],
)
async def test_scores_of_named_ids_that_are_none_are_refused(
    server: FakeVllm, client: VllmClient, value: Any
) -> None:
    server.scoring.runner = "V2"
    found = await scorer(client)
    change = Fault(
        path=GENERATE, change=lambda answer: answer.update(prompt_token_id_logprobs=value)
    )
    server.faults.extend([change] * 2)
    with pytest.raises(ModelBadResponse):
        await found.score(IDS, first=100, top_k=3)


async def test_two_values_of_one_token_must_agree(server: FakeVllm, client: VllmClient) -> None:
    server.scoring.runner = "V2"
    found = await scorer(client)

    def shift(answer: dict[str, Any]) -> None:
        named = [[one] for one in IDS[100:]]
        wrong = scoring.named_scores(scoring.digests(IDS)[99:], named)
        answer["prompt_token_id_logprobs"] = wrong

    server.faults.append(Fault(path=GENERATE, change=shift))
    with pytest.raises(ModelBadResponse, match="disagree"):
        await found.score(IDS, first=100, top_k=3)


@pytest.mark.parametrize("rows", [2, 3, 10])
@pytest.mark.parametrize("first", [1, 4, 5])
def test_slices_are_whole_and_end_where_no_block_does(first: int, rows: int) -> None:
    for end in range(first + 1, first + 40):
        pieces = module._slices(first, end, rows=rows)
        assert [one for low, high in pieces for one in range(low, high)] == list(range(first, end))
        assert all(high % 2 == 1 for _, high in pieces[:-1])
        assert all(0 < high - low <= rows for low, high in pieces)


async def test_a_gate_is_shared_by_all_scorers_of_a_server(
    server: FakeVllm, client: VllmClient
) -> None:
    capabilities = await detect_scoring(client, top_k=2)
    gate = asyncio.Semaphore(capabilities.concurrent_requests)
    scorers = [Scorer(client, capabilities, gate=gate) for _ in range(2)]
    server.requests.clear()
    async with asyncio.TaskGroup() as group, gate:
        for scorer in scorers:
            group.create_task(scorer.score([100, 110, 120], first=1, top_k=2))
        await asyncio.sleep(0.3)
        assert server.requests == []
    assert len(server.bodies(GENERATE)) == 2
