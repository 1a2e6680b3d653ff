"""Rectangular distillation arrays, for trainers that take no ragged ones."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from episode_operator.results.arrays import PayloadError
from episode_operator.results.distillation import Distillation
from episode_operator.results.payload import TokenRow


def filled(distillation: Distillation, row: TokenRow) -> Distillation:
    """The distillation over all s sampled positions: arrays [s] and [s, k].

    A position that was not scored gets the student's own recorded values, so that its A_t is 0:
    its k most likely tokens, the last of them replaced by the sampled one where that is not among
    them. Positions that were not sampled have no value here either.

    Raises:
        PayloadError: the student's top-k was not recorded, or has fewer than k tokens at such a
            position.
    """
    k = distillation.token_ids.shape[1]
    counts, student_ids, student_logprobs = (
        row.student_topk_counts,
        row.student_topk_token_ids,
        row.student_topk_logprobs,
    )
    if counts is None or student_ids is None or student_logprobs is None:
        raise PayloadError(
            "student_topk_token_ids: not recorded, so positions without a teacher cannot be "
            f"filled; set model.sampling.topLogprobs to at least {k}, or use the ragged arrays"
        )
    positions = np.flatnonzero(row.mask).astype(np.int32)
    unscored = ~np.isin(positions, distillation.positions)
    short = unscored & (counts < k)
    if short.any():
        index = int(np.argmax(short))
        raise PayloadError(
            f"student_topk_counts: {counts[index]} tokens recorded at position {positions[index]}, "
            f"{k} are needed to fill it; set model.sampling.topLogprobs to at least {k} and sample "
            "without topP, topK and minP, or use the ragged arrays"
        )
    ends = np.cumsum(counts, dtype=np.int64)
    first = (ends - counts)[unscored, None] + np.arange(k)
    ids, logprobs = student_ids[first], student_logprobs[first]
    sampled_ids, sampled_logprobs = (
        row.tokens[positions[unscored]],
        row.logprobs[positions[unscored]],
    )
    outside = ~np.any(ids == sampled_ids[:, None], axis=1)
    ids[outside, -1], logprobs[outside, -1] = sampled_ids[outside], sampled_logprobs[outside]
    student_topk_logprobs = None
    if distillation.student_topk_logprobs is not None:
        student_topk_logprobs = student_logprobs.copy()
        student_topk_logprobs[np.repeat(~unscored, counts)] = distillation.student_topk_logprobs
    return Distillation(
        positions=positions,
        token_ids=_merged(unscored, ids, distillation.token_ids),
        logprobs=_merged(unscored, logprobs, distillation.logprobs),
        sampled_logprobs=_merged(unscored, sampled_logprobs, distillation.sampled_logprobs),
        student_topk_logprobs=student_topk_logprobs,
    )


def _merged(unscored: NDArray[np.bool_], own: NDArray[Any], teacher: NDArray[Any]) -> NDArray[Any]:
    """One array over all sampled positions from those of the unscored and of the scored ones."""
    merged = np.empty((unscored.size, *teacher.shape[1:]), dtype=teacher.dtype)
    merged[unscored], merged[~unscored] = own, teacher
    return merged
