"""Decoding and checking of what the server answers about a prompt. Pure.

Every row must hold the prompt's own id, as many values as were asked for, and only finite ones;
nothing is filled in. What is not so raises ModelBadResponse.
"""

import base64
import binascii
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from episode_operator.model.errors import ModelBadResponse
from episode_operator.model.wire import finite_logprob

_ROWS, _FIRST_ROW = b'"prompt_logprobs":[', b"null,"
_ROW_END, _ROWS_END = b"}},", b"}}]"
_ID = re.compile(r"[0-9]{1,9}")
_SAME_VALUE = 0.3
"""Two ways to the same value differ by less, in bfloat16 too (measured: 0.13)."""


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Values at n positions of a prompt.

    token_ids int32[n,k] and logprobs float32[n,k]: the k most likely tokens, descending;
    sampled_logprobs float32[n]: of the prompt's own id there, whatever its rank; given_logprobs
    float32[c]: of the ids that were named, flat in their order, None when none were asked for;
    prompt_tokens: tokens of the prompt, and again those of what had to be asked again; weights: the
    label of the weights that gave all of them, None where there is none or an update came between.
    """

    token_ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    sampled_logprobs: NDArray[np.float32]
    given_logprobs: NDArray[np.float32] | None
    prompt_tokens: int
    weights: str | None


@dataclass(frozen=True, kw_only=True)
class PromptAnswer:
    """What an answer tells about its prompt: the number of rows behind the first position's null,
    the last of these rows, and float32[rows, ids] of ids that were named, if any were scored.
    `weights` is the label of the weights, where there is one; `aborted`: nothing was computed.
    """

    weights: str | None
    aborted: bool
    row_count: int
    rows: list[Any]
    named: NDArray[np.float32] | None


def parse_prompt_answer(raw: bytes, *, wanted: int) -> PromptAnswer:
    """Decode the last `wanted` rows of prompt_logprobs.

    Only these: an answer may hold a million values of rows that nobody wants, and decoding them
    would hold up the whole operator for a second.
    """
    start = raw.find(_ROWS) + len(_ROWS)
    kept, row_count, rest = b"", 0, raw
    if start >= len(_ROWS) and raw.startswith(_FIRST_ROW, start):
        end = raw.find(_ROWS_END, start)
        rows = raw[start + len(_FIRST_ROW) : end].split(_ROW_END)
        kept, row_count = _ROW_END.join(rows[-wanted:]) + _ROWS_END[:-1], len(rows)
        rest = raw[:start] + raw[end + len(_ROWS_END) - 1 :]
    try:
        answer, decoded = orjson.loads(rest), orjson.loads(b"[" + kept + b"]")
        choice = answer["choices"][0]
        named, finish = answer.get("prompt_token_id_logprobs"), choice["finish_reason"]
        versions = choice.get("weight_versions") or [{"version": None}]
        weights = versions[0]["version"]
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError) as error:
        raise ModelBadResponse(
            f"the answer about a prompt is not as vLLM writes it: {error}"
        ) from (error)
    return PromptAnswer(
        weights=weights,
        aborted=finish == "abort",
        row_count=row_count,
        rows=decoded,
        named=None if named is None else _array(named),
    )


def _array(text: object) -> NDArray[np.float32]:
    """The array of a base64 .npy file."""
    try:
        data = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except (binascii.Error, ValueError, EOFError, OSError) as error:
        raise ModelBadResponse(f"prompt_token_id_logprobs is no array: {error}") from error
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype != np.float32:
        raise ModelBadResponse("prompt_token_id_logprobs is no float32[rows, ids]")
    return array


def scores_of(
    answer: PromptAnswer,
    own: Sequence[int],
    *,
    top_k: int,
    named: Sequence[Sequence[int]] | None = None,
) -> Scores:
    """The scores of `own`, the prompt's last ids.

    `named`: the ids that were asked for at each position besides its own, which comes first.
    """
    if len(answer.rows) != len(own):
        raise ModelBadResponse(
            f"{len(answer.rows)} rows of prompt_logprobs for {len(own)} positions"
        )
    token_ids = np.empty((len(own), top_k), dtype=np.int32)
    logprobs = np.empty((len(own), top_k), dtype=np.float32)
    sampled = np.empty(len(own), dtype=np.float32)
    for at, (row, token_id) in enumerate(zip(answer.rows, own, strict=True)):
        token_ids[at], logprobs[at], sampled[at] = _top(row, token_id, top_k=top_k, at=at)
    given = None
    if named is not None:
        again, given = _named_values(answer.named, named)
        if np.abs(again - sampled).max() > _SAME_VALUE:
            raise ModelBadResponse(
                "prompt_logprobs and prompt_logprob_token_ids disagree about the same tokens"
            )
    return Scores(
        token_ids=token_ids,
        logprobs=logprobs,
        sampled_logprobs=sampled,
        given_logprobs=given,
        prompt_tokens=len(own),
        weights=answer.weights,
    )


def _top(row: object, own: int, *, top_k: int, at: int) -> tuple[list[int], list[float], float]:
    """The k most likely ids of a row and their logprobs, descending, and its own id's logprob.

    vLLM gives the k most likely the ranks 1 to k; the prompt's own id follows with its rank when it
    is not among them.
    """
    if not isinstance(row, dict):
        raise ModelBadResponse(f"row {at} of prompt_logprobs is {type(row).__name__}")
    ranked: dict[int, tuple[int, float]] = {}
    for key, entry in row.items():
        what = f"id {key} in row {at} of prompt_logprobs"
        rank = entry.get("rank") if isinstance(entry, dict) else None
        if not _ID.fullmatch(key) or type(rank) is not int or rank in ranked:
            raise ModelBadResponse(f"{what} is {entry!r}")
        ranked[rank] = int(key), finite_logprob(entry.get("logprob"), what=f"the logprob of {what}")
    sampled = [value for token_id, value in ranked.values() if token_id == own]
    if not sampled:
        raise ModelBadResponse(f"row {at} has no value of the prompt's own id {own}")
    best = [ranked[rank] for rank in range(1, top_k + 1) if rank in ranked]
    others = [one for rank, (one, _) in ranked.items() if not 1 <= rank <= top_k]
    if len(best) != top_k or others not in ([], [own]):
        raise ModelBadResponse(f"row {at} does not hold the {top_k} most likely ids")
    values = [value for _, value in best]
    if values != sorted(values, reverse=True) or (others and sampled[0] > values[-1]):
        raise ModelBadResponse(f"the values of row {at} do not follow their ranks")
    return [token_id for token_id, _ in best], values, sampled[0]


def _named_values(
    scored: NDArray[np.float32] | None, named: Sequence[Sequence[int]]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """From padded rows [own id, *named ids]: the own ids' values, and the others' flat."""
    shape = (len(named), 1 + max(map(len, named), default=0))
    if scored is None or scored.shape != shape:
        found = None if scored is None else scored.shape
        raise ModelBadResponse(f"scores of named ids have the shape {found}, not {shape}")
    flat = [
        value for row, ids in zip(scored, named, strict=True) for value in row[1 : 1 + len(ids)]
    ]
    for value in (*scored[:, 0], *flat):
        finite_logprob(float(value), what="the logprob of a named id")
    return scored[:, 0], np.minimum(np.array(flat, dtype=np.float32), np.float32(0.0))
