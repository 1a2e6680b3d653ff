"""Decoding and checking of what the server answers. Pure: bytes or parsed JSON in, dataclasses out.

Nothing is filled in: an answer with a missing, clamped or non-finite number raises
ModelBadResponse.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from episode_operator.model.errors import ModelBadResponse

CLAMPED_LOGPROB = -9999.0
"""vLLM writes this where a logprob is NaN or minus infinity."""
_RANK_TOLERANCE = 1e-3
"""A value outside the most likely tokens may come from another computation than theirs."""


@dataclass(frozen=True, kw_only=True)
class VersionSpan:
    """Tokens [start, end) were sampled by the weights labelled `version`."""

    version: str
    start: int
    end: int

    def shifted(self, offset: int) -> "VersionSpan":
        """The same span, `offset` tokens later."""
        return VersionSpan(version=self.version, start=self.start + offset, end=self.end + offset)


@dataclass(frozen=True, kw_only=True)
class Generated:
    """One answer of `/inference/v1/generate`.

    `token_ids` int[n] and `logprobs` float[n] belong together position by position; `top` is the
    k most likely (id, logprob) of each position, empty when none were asked for.
    """

    token_ids: list[int]
    logprobs: list[float]
    finish_reason: str
    stop_reason: int | str | None
    versions: tuple[VersionSpan, ...]
    top: list[list[tuple[int, float]]]


def finite_logprob(value: object, *, what: str) -> float:
    """`value` as a logprob; raises ModelBadResponse when it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ModelBadResponse(f"{what} is {value!r}, not a finite logprob")
    if value <= CLAMPED_LOGPROB:
        raise ModelBadResponse(
            f"{what} is {value}, which vLLM writes for NaN or minus infinity: the model computes "
            "broken values (check its weights and dtype)"
        )
    if value > 1e-3:
        raise ModelBadResponse(
            f"{what} is {value}, a probability above 1; start vLLM with --logprobs-mode "
            "processed_logprobs, not with one of the modes that report logits"
        )
    return min(float(value), 0.0)


def token_ids_of(value: object, *, what: str) -> list[int]:
    """`value` as a list of token ids; raises ModelBadResponse when it is none."""
    if not isinstance(value, list) or not all(type(one) is int and one >= 0 for one in value):
        raise ModelBadResponse(f"{what} is not a list of token ids")
    return value


def _mapping(value: object, *, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ModelBadResponse(f"{what} is not an object")
    return value


def _versions(value: object, *, count: int) -> tuple[VersionSpan, ...]:
    """Spans that cover all `count` tokens without gap, or no spans where the server has none."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ModelBadResponse("weight_versions is not a list")
    spans = []
    for one in value:
        span = _mapping(one, what="an entry of weight_versions")
        version, start, end = span.get("version"), span.get("start"), span.get("end")
        if not isinstance(version, str) or type(start) is not int or type(end) is not int:
            raise ModelBadResponse(f"weight_versions holds {span!r}")
        if start < end:
            spans.append(VersionSpan(version=version, start=start, end=end))
    edges = [0, *(span.end for span in spans)]
    if spans and ([span.start for span in spans] != edges[:-1] or edges[-1] != count):
        raise ModelBadResponse(f"weight_versions {value!r} does not cover the {count} sampled ids")
    return tuple(spans)


def parse_generated(answer: object, *, top_count: int) -> Generated:
    """Check and convert the answer to a generate request that asked for `logprobs`.

    `top_count` is the number of most likely tokens asked for (0: only the sampled ones' values).
    """
    choices = _mapping(answer, what="the answer").get("choices")
    if not isinstance(choices, list) or len(choices) != 1:
        raise ModelBadResponse("the answer has not exactly one choice")
    choice = _mapping(choices[0], what="the choice")
    ids = token_ids_of(choice.get("token_ids") or [], what="token_ids")
    finish_reason = choice.get("finish_reason")
    if finish_reason not in ("stop", "length", "abort", "repetition"):
        raise ModelBadResponse(f"finish_reason is {finish_reason!r}")
    content = _content(choice, count=len(ids), aborted=finish_reason == "abort")
    logprobs, top = [], []
    for position, (token_id, one) in enumerate(zip(ids, content, strict=True)):
        entry = _mapping(one, what=f"logprobs[{position}]")
        if entry.get("token_id") != token_id:
            raise ModelBadResponse(
                f"logprobs[{position}] is of id {entry.get('token_id')!r}, sampled was {token_id}"
            )
        logprobs.append(finite_logprob(entry.get("logprob"), what=f"logprobs[{position}]"))
        if top_count:
            most_likely = _top(entry.get("top_logprobs"), position=position, count=top_count)
            _check_sampled(most_likely, token_id, logprobs[-1], position=position)
            top.append(most_likely)
    return Generated(
        token_ids=ids,
        logprobs=logprobs,
        finish_reason=finish_reason,
        stop_reason=choice.get("stop_reason"),
        versions=_versions(choice.get("weight_versions"), count=len(ids)),
        top=top,
    )


def _content(choice: Mapping[str, Any], *, count: int, aborted: bool) -> Sequence[object]:
    logprobs = choice.get("logprobs")
    if logprobs is None and count == 0 and aborted:
        return []
    content = _mapping(logprobs, what="logprobs").get("content") or []
    if not isinstance(content, list) or len(content) != count:
        length = len(content) if isinstance(content, list) else "no"
        raise ModelBadResponse(f"{count} sampled ids came with {length} logprobs")
    return content


def _top(value: object, *, position: int, count: int) -> list[tuple[int, float]]:
    """The `count` best of one position. Values of excluded tokens are minus infinity: left out."""
    if not isinstance(value, list):
        raise ModelBadResponse(f"top_logprobs of logprobs[{position}] is missing")
    pairs = []
    for one in value:
        entry = _mapping(one, what=f"top_logprobs of logprobs[{position}]")
        token_id, logprob = entry.get("token_id"), entry.get("logprob")
        if type(token_id) is not int or isinstance(logprob, bool):
            raise ModelBadResponse(f"top_logprobs of logprobs[{position}] holds {entry!r}")
        if isinstance(logprob, int | float) and logprob <= CLAMPED_LOGPROB:
            continue
        pairs.append((token_id, finite_logprob(logprob, what=f"top of logprobs[{position}]")))
    if len(dict(pairs)) < len(pairs):
        raise ModelBadResponse(f"top_logprobs of logprobs[{position}] hold an id twice: {pairs}")
    pairs.sort(key=lambda pair: -pair[1])
    return pairs[:count]


def _check_sampled(
    top: Sequence[tuple[int, float]], sampled: int, logprob: float, *, position: int
) -> None:
    """Raise ModelBadResponse unless the most likely tokens agree with the sampled one's value."""
    value = dict(top).get(sampled)
    if value not in (None, logprob):
        raise ModelBadResponse(
            f"logprobs[{position}] has two values of the sampled id {sampled}: {logprob}, {value}"
        )
    if value is None and top and logprob > top[-1][1] + _RANK_TOLERANCE:
        raise ModelBadResponse(
            f"top_logprobs of logprobs[{position}] are less likely than the sampled id {sampled}"
        )
