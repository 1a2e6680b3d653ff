"""The teacher's logprobs of given ids: its most likely tokens and the values of chosen ones.

Values are of the raw distribution (temperature 1, no filter) whatever the server's logprobs mode.
The value at position p is that of the id at p, given the ids before it.

What a server can do depends on vLLM's model runner. V1 computes and answers every row of the
prompt, for each request; reading its prefix cache would fill rows with uninitialized memory. V2
answers only the rows that it computed, so with the prefix in its cache about as many as are wanted,
and it scores ids that are named to it (`prompt_logprob_token_ids`).
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np

from episode_operator.model.capabilities import require_same_model
from episode_operator.model.client import VllmClient
from episode_operator.model.errors import (
    ContextLengthExceeded,
    ModelBadRequest,
    ModelBadResponse,
    ModelError,
    TeacherMismatch,
)
from episode_operator.model.patience import Patience
from episode_operator.model.sampler import STALE_CACHE_REPEATS, cache_salt, salt_of
from episode_operator.model.scores import PromptAnswer, Scores, parse_prompt_answer, scores_of

WHOLE_ANSWER_VALUES = 1_600_000
"""Most values (rows x (k + 1)) that a server which answers whole prompts is asked for at once:
31,000 tokens at k = 50. vLLM writes 68 bytes each; for so many it took 0.8 GB more memory.
"""
SLICE_VALUES = 100_000
"""Most values that are asked for at once where a request can be cut into slices."""
_TOO_MANY = "max allowed"
"""vLLM's words when it is asked for more logprobs than it was started with."""


@dataclass(frozen=True, kw_only=True)
class ScoringCapabilities:
    """Facts about one model on one server, as a teacher. `root` is where its weights come from.

    `scores_given_ids`: it takes prompt_logprob_token_ids and its prefix cache may be read while
    scoring (vLLM's V2 model runner).
    """

    root: str | None
    max_model_len: int
    labels_weights: bool
    scores_given_ids: bool

    @property
    def prompt_limit(self) -> int:
        """Most tokens a scored prompt may have: vLLM samples at least one after it."""
        return self.max_model_len - 1

    @property
    def concurrent_requests(self) -> int:
        """Most requests at once. Answers of whole prompts are large, on the server and here."""
        return 4 if self.scores_given_ids else 1


async def detect_scoring(
    client: VllmClient, *, top_k: int, given_ids: int = 0
) -> ScoringCapabilities:
    """Find out how the server scores, and refuse one that cannot score what will be asked.

    `top_k` most likely tokens per position, and `given_ids` chosen ones (0: none). Raises
    TeacherMismatch that says what to change, or whatever else a request may raise.
    """
    served = await client.served_model()
    prompt = (await client.tokenize("Hello."))[:1] * 2
    try:
        await _answer(client, prompt, {"prompt_logprobs": top_k}, wanted=1)
    except ModelBadRequest as error:
        raise _refused(client, "distillation.topK", top_k, error) from error
    params = {"prompt_logprob_token_ids": [prompt[:1] * (given_ids + 1)]}
    try:
        answer = await _answer(client, prompt, params, wanted=0)
    except ModelBadRequest as error:
        if _TOO_MANY in str(error):
            raise _refused(client, "sampling.topLogprobs", given_ids + 1, error) from error
        scores_given_ids = False
    else:
        scores_given_ids = answer.named is not None
    if given_ids and not scores_given_ids:
        raise TeacherMismatch(
            f"{client.endpoint} cannot score the student's own top tokens (no "
            "prompt_logprob_token_ids): start vLLM with the V2 model runner "
            "(VLLM_USE_V2_MODEL_RUNNER=1), or set distillation.studentTopK to false"
        )
    return ScoringCapabilities(
        root=served.root,
        max_model_len=served.max_model_len,
        labels_weights=await client.weight_version() is not None,
        scores_given_ids=scores_given_ids,
    )


def _refused(client: VllmClient, field: str, count: int, error: ModelBadRequest) -> ModelError:
    if _TOO_MANY not in str(error):
        return error
    return TeacherMismatch(
        f"{client.endpoint} refuses {count} logprobs per position ({error}): start vLLM with "
        f"--max-logprobs {count} or lower {field}"
    )


async def _answer(
    client: VllmClient,
    ids: list[int],
    params: Mapping[str, Any],
    *,
    wanted: int,
    salt: str | None = None,
) -> PromptAnswer:
    """The answer with its last `wanted` rows; asked again while the server aborts requests."""
    patience = Patience()
    while True:
        raw = await client.score_prompt(ids, params=params, cache_salt=salt)
        answer = await asyncio.to_thread(parse_prompt_answer, raw, wanted=wanted)
        if not answer.aborted:
            return answer
        await patience.wait("aborts every request")


class Scorer:
    """Scores ids on one server. Safe for concurrent use.

    `gate` bounds the requests of all scorers that share it, as those of one server must; by default
    it is one of its own, of `capabilities.concurrent_requests`.
    """

    def __init__(
        self,
        client: VllmClient,
        capabilities: ScoringCapabilities,
        *,
        gate: asyncio.Semaphore | None = None,
    ) -> None:
        self.client = client
        self.capabilities = capabilities
        self._gate = gate or asyncio.Semaphore(capabilities.concurrent_requests)

    async def score(
        self,
        token_ids: Sequence[int],
        *,
        first: int,
        top_k: int,
        given: Sequence[Sequence[int]] | None = None,
    ) -> Scores:
        """Score positions [first, n) of the prompt `token_ids` [n], first >= 1.

        `given` names ids at each of these positions, any number at each. Raises
        ContextLengthExceeded for a prompt that this server cannot score, ModelChanged when the
        server was started anew with another model, or another ModelError.
        """
        ids = list(token_ids)
        if not 1 <= first < len(ids):
            raise ValueError(f"there is no position {first} to score in {len(ids)} ids")
        if given is not None and len(given) != len(ids) - first:
            raise ValueError(f"{len(given)} lists of ids for {len(ids) - first} positions")
        limit = self.capabilities.prompt_limit
        if len(ids) > limit:
            raise ContextLengthExceeded(
                f"the prompt has {len(ids)} tokens and the teacher takes {limit}: raise its "
                "--max-model-len, or end episodes earlier (maxTurns, sampling.maxTokens)"
            )
        async with self._gate:
            if self.capabilities.scores_given_ids:
                scores = await self._sliced(ids, first=first, top_k=top_k, given=given)
            elif given is not None:
                raise ModelBadRequest("this server does not score given ids; see detect_scoring")
            else:
                scores = await self._whole(ids, first=first, top_k=top_k)
        known = self.capabilities
        await require_same_model(self.client, root=known.root, max_model_len=known.max_model_len)
        return scores

    async def _whole(self, ids: list[int], *, first: int, top_k: int) -> Scores:
        values = len(ids) * (top_k + 1)
        if values > WHOLE_ANSWER_VALUES:
            raise ContextLengthExceeded(
                f"the server answers all {len(ids)} positions with {top_k + 1} values each; more "
                f"than {WHOLE_ANSWER_VALUES} values could fell it: lower distillation.topK to "
                f"{max(1, WHOLE_ANSWER_VALUES // len(ids) - 1)}, or start vLLM with the V2 model "
                "runner (VLLM_USE_V2_MODEL_RUNNER=1)"
            )
        params = {"prompt_logprobs": top_k, "skip_reading_prefix_cache": True}
        answer = await self._request(ids, params, wanted=len(ids) - first)
        if answer.row_count != len(ids) - 1:
            raise ModelBadResponse(f"{answer.row_count} rows of prompt_logprobs, {len(ids)} ids")
        scores = await asyncio.to_thread(scores_of, answer, ids[first:], top_k=top_k)
        return replace(scores, prompt_tokens=len(ids))

    async def _sliced(
        self,
        ids: list[int],
        *,
        first: int,
        top_k: int,
        given: Sequence[Sequence[int]] | None,
    ) -> Scores:
        named = given if given is not None else [()] * (len(ids) - first)
        parts = [
            await self._slice(
                ids[:high], first=low, top_k=top_k, named=named[low - first : high - first]
            )
            for low, high in _slices(first, len(ids), rows=SLICE_VALUES // (top_k + 1))
        ]
        labels = {one.weights for one in parts}
        values = [one.given_logprobs for one in parts if one.given_logprobs is not None]
        return Scores(
            token_ids=np.concatenate([one.token_ids for one in parts]),
            logprobs=np.concatenate([one.logprobs for one in parts]),
            sampled_logprobs=np.concatenate([one.sampled_logprobs for one in parts]),
            given_logprobs=None if given is None else np.concatenate(values),
            prompt_tokens=first + sum(one.prompt_tokens for one in parts),
            weights=labels.pop() if len(labels) == 1 else None,
        )

    async def _slice(
        self, ids: list[int], *, first: int, top_k: int, named: Sequence[Sequence[int]]
    ) -> Scores:
        """Positions [first, n) of `ids`.

        Rows that the server has in its cache are neither computed nor answered. When wanted ones
        are among them it is asked again under a salt that nothing is cached for.
        """
        own = ids[first:]
        params = {
            "prompt_logprobs": top_k,
            "prompt_logprob_token_ids": [
                [one, *others] for one, others in zip(own, named, strict=True)
            ],
            "prompt_logprob_start": first - 1,
        }
        answer = await self._tail(ids, params, wanted=len(own), salt=None)
        tokens = len(own)
        if answer.row_count < len(own) or answer.named is None:
            answer = await self._tail(ids, params, wanted=len(own), salt=uuid4().hex)
            tokens += len(ids)
        scores = await asyncio.to_thread(scores_of, answer, own, top_k=top_k, named=named)
        return replace(scores, prompt_tokens=tokens)

    async def _tail(
        self, ids: list[int], params: Mapping[str, Any], *, wanted: int, salt: str | None
    ) -> PromptAnswer:
        """Ask for the last `wanted` rows. When those before them are many, a request without rows
        first gets them into the cache, so that they are not answered.
        """
        before = len(ids) - wanted
        params = {**params, "skip_reading_prefix_cache": False}
        if before * (params["prompt_logprobs"] + 1) > SLICE_VALUES:
            await self._request(ids[: before - 1], {}, wanted=0, salt=salt)
        return await self._request(ids, params, wanted=wanted, salt=salt)

    async def _request(
        self, ids: list[int], params: Mapping[str, Any], *, wanted: int, salt: str | None = None
    ) -> PromptAnswer:
        """One request under the cache salt of the current weights, and `salt`.

        Asked again when it turns out that other weights answered it: these may have read keys and
        values of those the salt names.
        """
        for _ in range(1 + STALE_CACHE_REPEATS):
            current = await cache_salt(self.client, labels_weights=self.capabilities.labels_weights)
            whole = " ".join(one for one in (current, salt) if one is not None) or None
            answer = await _answer(self.client, ids, params, wanted=wanted, salt=whole)
            if answer.weights is not None:
                self.client.versions.see(answer.weights)
                self.client.seen_weights = answer.weights
            if answer.weights is None or current in (None, salt_of(answer.weights)):
                break
        return answer


def _slices(first: int, end: int, *, rows: int) -> list[tuple[int, int]]:
    """[first, end) in pieces of at most `rows`.

    Where a piece ends the next one's first row is predicted, and that id must not be cached. Whole
    blocks are; their size is even, so no piece but the last ends at an even position.
    """
    pieces, low = [], first
    while low < end:
        high = min(low + rows, end)
        if high < end and high % 2 == 0:
            high -= 1
        pieces.append((low, high))
        low = high
    return pieces
