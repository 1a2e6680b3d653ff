"""What the scripted server answers about a prompt, as vLLM's two model runners do.

Every value depends on all ids before it, so that a hint in another place, or ids that are off by
one, give other values.
"""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal

import numpy as np

BLOCK = 16
"""Ids are cached in blocks of so many."""
_RANKED = 64
_IDS = 50_021  # a prime, so that the most likely ids of a position are different ones
_STEP = 7919
_INVERSE = pow(_STEP, -1, _IDS)
_MODULUS = 2**61 - 1


class BadRequestError(Exception):
    """What a server answers 400 to."""


def digests(ids: Sequence[int]) -> list[int]:
    """One number for the ids before each position."""
    return list(
        accumulate(ids, lambda sofar, one: (sofar * 1_000_003 + one + 1) % _MODULUS, initial=7)
    )


def _ranked(digest: int, rank: int) -> tuple[int, float]:
    return (digest + rank * _STEP) % _IDS, -0.05 - rank * 0.07 - digest % 13 / 1000


def _logprob(digest: int, token_id: int) -> float:
    rank = (token_id - digest) * _INVERSE % _IDS
    if rank < _RANKED and _ranked(digest, rank)[0] == token_id:
        return _ranked(digest, rank)[1]
    return -8.0 - (digest ^ (token_id * 2_654_435_761)) % 4096 / 512


def logprob(before: Sequence[int], token_id: int) -> float:
    """Logprob of an id, given those before it."""
    return _logprob(digests(before)[-1], token_id)


def top(before: Sequence[int], count: int) -> list[tuple[int, float]]:
    """The most likely ids and their logprobs, descending."""
    return [_ranked(digests(before)[-1], rank) for rank in range(count)]


@dataclass
class PromptScoring:
    """The server's part that scores prompts. `runner` V1 refuses ids that are named to it, and its
    rows are garbage where it reads its cache; V2 leaves out the rows that it has in its cache.
    """

    runner: Literal["V1", "V2"] = "V1"
    max_logprobs: int = 51
    computed: list[int] = field(default_factory=list)
    """Prompt tokens that each request had the server compute."""
    _cache: set[tuple[str | None, tuple[int, ...]]] = field(default_factory=set)

    def answer(
        self, ids: Sequence[int], params: dict[str, Any], salt: str | None
    ) -> dict[str, Any]:
        """`prompt_logprobs` and `prompt_token_id_logprobs` of the answer."""
        count, named = params.get("prompt_logprobs"), params.get("prompt_logprob_token_ids")
        start = params.get("prompt_logprob_start", 0)
        self._check(ids, count, named, start)
        skips = params.get("skip_reading_prefix_cache")
        if skips is None:
            skips = count is not None or named is not None
        cached = 0 if skips else self._cached(ids, salt)
        self.computed.append(len(ids) - cached)
        self._cache.update((salt, tuple(ids[:end])) for end in range(BLOCK, len(ids) + 1, BLOCK))
        known = digests(ids)
        return {
            "prompt_logprobs": None if count is None else self._rows(ids, known, count, cached),
            "prompt_token_id_logprobs": None
            if named is None or cached > start
            else named_scores(known[start + 1 :], named),
        }

    def _check(
        self, ids: Sequence[int], count: int | None, named: list[list[int]] | None, start: int
    ) -> None:
        if count is not None and count > self.max_logprobs:
            raise BadRequestError(
                f"Requested prompt logprobs of {count}, which is greater than max allowed: "
                f"{self.max_logprobs}"
            )
        if named is None:
            if start:
                raise BadRequestError("prompt_logprob_start requires prompt_logprob_token_ids.")
            return
        if self.runner == "V1":
            raise BadRequestError(
                "prompt_logprob_token_ids requires the V2 model runner (VLLM_USE_V2_MODEL_RUNNER=1)"
            )
        width = max(map(len, named))
        if width > self.max_logprobs:
            raise BadRequestError(
                f"Requested {width} token ids per row in prompt_logprob_token_ids, which is "
                f"greater than max allowed: {self.max_logprobs}."
            )
        if len(named) != len(ids) - 1 - start:
            raise BadRequestError(f"prompt_logprob_token_ids has {len(named)} rows")

    def _cached(self, ids: Sequence[int], salt: str | None) -> int:
        """Ids at the start that need not be computed; the last one always is."""
        cached = 0
        while cached + BLOCK < len(ids) and (salt, tuple(ids[: cached + BLOCK])) in self._cache:
            cached += BLOCK
        return cached

    def _rows(
        self, ids: Sequence[int], known: list[int], count: int, cached: int
    ) -> list[dict[str, Any] | None]:
        rows: list[dict[str, Any] | None] = [None]
        if self.runner == "V1":
            rows += [{"0": {"logprob": 0.0, "rank": 0, "decoded_token": None}}] * cached
        for at in range(cached + 1, len(ids)):
            ranked = [_ranked(known[at], rank) for rank in range(count)]
            # A dict, as there: the own id's entry gives way to the one among the most likely.
            values = {ids[at]: (_logprob(known[at], ids[at]), 1000)}
            values |= {one: (value, rank) for rank, (one, value) in enumerate(ranked, start=1)}
            rows.append(
                {
                    str(one): {"logprob": value, "rank": rank, "decoded_token": None}
                    for one, (value, rank) in values.items()
                }
            )
        return rows


def named_scores(known: Sequence[int], named: list[list[int]]) -> str:
    """The base64 of a .npy file of float32[rows, ids], minus infinity where a row is shorter."""
    scores = np.full((len(named), max(map(len, named))), -np.inf, dtype=np.float32)
    for row, ids in enumerate(named):
        for column, one in enumerate(ids):
            scores[row, column] = _logprob(known[row], one)
    with io.BytesIO() as file:
        np.save(file, scores)
        return base64.b64encode(file.getvalue()).decode()
