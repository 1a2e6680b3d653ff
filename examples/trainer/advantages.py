"""How much better than expected: rows relative to their group, tokens relative to a teacher."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from examples.trainer.rows import Row

_EPSILON: Final = 1e-6


def group_advantages(rows: Sequence[Row]) -> NDArray[np.float32]:
    """(score - mean) / (standard deviation + 1e-6) within each group; 0 where all are equal.

    Returns:
        float32[rows].
    """
    groups: dict[int, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        groups[row.group].append(index)
    advantages = np.zeros(len(rows), dtype=np.float32)
    for members in groups.values():
        scores = np.array([rows[index].score for index in members])
        if scores.min() < scores.max():
            advantages[members] = (scores - scores.mean()) / (scores.std() + _EPSILON)
    return advantages


def teacher_advantages(row: Row) -> NDArray[np.float32]:
    """A_t = the teacher's logprob of the sampled token - its logprob at sampling time.

    Returns:
        float32[s] for the s sampled tokens; NaN where the teacher was not asked, or the sampled
        token is not among its most likely ones: there its value is not known.
    """
    sampled = np.flatnonzero(row.sampled)
    advantages = np.full(sampled.size, np.nan, dtype=np.float32)
    if row.teacher is not None:
        teacher = row.teacher
        at = np.repeat(teacher.positions, teacher.counts)
        listed = teacher.token_ids == row.tokens[at]
        known = at[listed]
        values = teacher.logprobs[listed] - row.logprobs[known]
        advantages[np.searchsorted(sampled, known)] = values
    return advantages


def token_advantages(
    rows: Sequence[Row], *, reward_weight: float, teacher_weight: float, teacher_clip: float
) -> list[NDArray[np.float32]]:
    """Weighted sum of the row's and the token's advantage, the latter within +-teacher_clip.

    Returns:
        for each row float32[s]; where A_t is not known it has no part.
    """
    found = []
    for row, advantage in zip(rows, group_advantages(rows), strict=True):
        from_teacher = np.clip(teacher_advantages(row), -teacher_clip, teacher_clip)
        known = np.where(np.isnan(from_teacher), np.float32(0), from_teacher)
        found.append((reward_weight * advantage + teacher_weight * known).astype(np.float32))
    return found
