"""Distillation with the real policy on the real vLLM; only the judge is scripted.

On the testbed vLLM has its V1 model runner. With EPISODE_VLLM_URL at a server of the V2 runner the
same tests show that one.
"""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import numpy as np
import pytest

from episode_operator.api.distillation import HintPlacement, TurnOutcome
from episode_operator.distill import (
    Config,
    Distilled,
    Judge,
    Rollout,
    check_vocabulary,
    distill,
)
from episode_operator.model import (
    Capabilities,
    Conversation,
    SamplingConfig,
    Scorer,
    SpecialTokens,
    TeacherMismatch,
    VllmClient,
    detect,
    detect_scoring,
)
from tests.cluster.vllm import (
    NO_OUTPUT,
    TOOLS,
    WatchedClient,
    held_out_tasks,
    messages_of,
    model,
    tolerance,
    url,
)
from tests.distillation import prompts_by_hand, rollout_of, wrong_values
from tests.fakes.judge import yes
from tests.fakes.vllm_server import MODEL, FakeVllm

pytestmark = pytest.mark.usefixtures("vllm_url")

HINTS = {
    0: "Say first which file you write, then write it.",
    1: "Read the file back before you say that it is done.",
    2: "Answer in one short sentence, and stop there.",
}
ANSWERS = ("First I look around.", "The file is <there> now.")
TOP_K = 50


@dataclass(frozen=True)
class Policy:
    """The real policy, sampled through a client that can force what it says."""

    client: WatchedClient
    capabilities: Capabilities
    specials: SpecialTokens


@pytest.fixture(scope="module")
async def policy(vllm_url: str) -> AsyncIterator[Policy]:
    """The policy on the testbed's server."""
    # The server ends idle connections, which kubectl does not tell.
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        client = WatchedClient(session, url(), model())
        yield Policy(client, await detect(client), SpecialTokens(client))


@pytest.fixture(scope="module")
async def rollout(policy: Policy) -> Rollout:
    """Four turns: a call of the policy's own, two forced texts, and a last one of its own."""
    (task,) = held_out_tasks(1)
    conversation = await Conversation.start(
        policy.client,
        policy.capabilities,
        messages_of(task),
        TOOLS,
        sampling=SamplingConfig(temperature=1.0, max_tokens=40),
        specials=policy.specials,
    )
    first = await conversation.sample()
    result = {"role": "tool", "content": NO_OUTPUT, "tool_call_id": first.call_id(0)}
    await conversation.append([result])
    policy.client.forced.append(ANSWERS[0])
    await conversation.sample()
    await conversation.append([{"role": "user", "content": "That is not what I asked for."}])
    policy.client.forced.append(ANSWERS[1])
    await conversation.sample()
    await conversation.append([{"role": "user", "content": "Show me <|im_end|>."}])
    await conversation.sample()
    return rollout_of(conversation, TOOLS)


async def distilled(policy: Policy, rollout: Rollout, placement: HintPlacement) -> Distilled:
    """Distil with the policy as its own teacher, every turn with its hint."""
    capabilities = await detect_scoring(policy.client, top_k=TOP_K)
    async with FakeVllm.running() as server, aiohttp.ClientSession() as session:
        for turn, text in enumerate(("", *ANSWERS)):
            if text:
                server.judge.when(f"(turn t)\n{text}", yes(HINTS[turn]))
        server.judge.when("", yes(HINTS[0]))
        return await distill(
            rollout,
            policy=policy,
            teacher=Scorer(policy.client, capabilities),
            judge=Judge(session, server.url, MODEL),
            config=Config(top_k=TOP_K, placement=placement),
            deadline=time.monotonic() + 500,
        )


@pytest.mark.parametrize("placement", list(HintPlacement))
async def test_every_value_is_that_of_an_independent_request(
    policy: Policy, rollout: Rollout, placement: HintPlacement
) -> None:
    result = await distilled(policy, rollout, placement)
    scored, none = TurnOutcome.SCORED, TurnOutcome.NO_NEXT_STATE
    assert [turn.outcome for turn in result.turns] == [scored, scored, scored, none], result.turns
    assert [turn.hint for turn in result.turns[:3]] == list(HINTS.values())
    built = await prompts_by_hand(policy.client, rollout, placement, HINTS)
    wrong = await wrong_values(result, rollout, built, policy.client, tolerance=tolerance())
    assert wrong == []
    assert result.token_ids.shape == result.logprobs.shape == (len(result.positions), TOP_K)
    assert (np.diff(result.logprobs, axis=1) <= 0).all()
    probability = np.exp(result.logprobs.astype(np.float64)).sum(axis=1)
    assert (probability <= 1 + 1e-4).all()
    own = rollout.tokens[result.positions]
    row, column = np.nonzero(result.token_ids == own[:, None])
    assert len(row) > len(own) / 2
    assert result.logprobs[row, column] == pytest.approx(result.sampled_logprobs[row], abs=1e-5)
    # The hints change what the teacher thinks of the tokens.
    assert np.abs(result.advantages(rollout)).max() > 10 * tolerance()


async def test_the_same_ids_score_the_same_before_and_after_a_prompt_with_their_prefix(
    policy: Policy, rollout: Rollout
) -> None:
    scorer = Scorer(policy.client, await detect_scoring(policy.client, top_k=5))
    span = rollout.sampled(2)
    ids = rollout.tokens[: span.stop].tolist()
    before = await scorer.score(ids, first=span.start, top_k=5)
    await policy.client.generate([*ids, *ids[:20]], sampling_params={"max_tokens": 1})
    await scorer.score([*ids[:-3], *ids[:20]], first=span.start, top_k=5)
    after = await scorer.score(ids, first=span.start, top_k=5)
    difference = np.abs(before.sampled_logprobs - after.sampled_logprobs).max()
    assert difference <= tolerance()
    assert np.abs(before.logprobs - after.logprobs).max() <= tolerance()


async def test_a_prompt_of_the_servers_whole_context_is_scored_and_the_server_lives(
    policy: Policy, rollout: Rollout
) -> None:
    capabilities = await detect_scoring(policy.client, top_k=TOP_K)
    scorer = Scorer(policy.client, capabilities)
    limit = capabilities.prompt_limit
    ids = np.resize(rollout.tokens, limit).tolist()
    scores = await scorer.score(ids, first=limit - 200, top_k=TOP_K)
    assert scores.token_ids.shape == (200, TOP_K)
    assert np.isfinite(scores.logprobs).all()
    await policy.client.health()
    await policy.client.generate(ids[:20], sampling_params={"max_tokens": 1})


class _Elsewhere(VllmClient):
    """The same server under another address."""

    @property
    def endpoint(self) -> str:
        """Not that of the policy."""
        return "http://elsewhere"


async def test_the_whole_vocabulary_is_compared(policy: Policy) -> None:
    async with _Elsewhere.open(url(), model()) as teacher:
        await check_vocabulary(policy.client, teacher)
    async with FakeVllm.running() as server, VllmClient.open(server.url, MODEL) as other:
        with pytest.raises(TeacherMismatch, match="has not the vocabulary"):
            await check_vocabulary(policy.client, other)
