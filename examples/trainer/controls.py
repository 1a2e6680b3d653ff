"""Deliberate faults, to show that what should matter does: a run with one of them must fail.

Each takes rows and a generator, and gives rows that differ in just one thing.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from examples.trainer.rows import MASKED_LOGPROB, Row

Control = Callable[[Sequence[Row], np.random.Generator], list[Row]]


def mask_shift(rows: Sequence[Row], random: np.random.Generator) -> list[Row]:
    """Mask, logprobs and teacher's values belong to the token before, as if labels were off by 1.

    What falls out at the end of a row is gone, and so is a row that had nothing else.
    """
    return [shifted for shifted in map(_shifted, rows) if shifted.sampled.any()]


def _shifted(row: Row) -> Row:
    sampled, logprobs = np.roll(row.sampled, 1), np.roll(row.logprobs, 1)
    sampled[0], logprobs[0] = False, MASKED_LOGPROB
    teacher = row.teacher
    if teacher is not None:
        kept = teacher.positions + 1 < row.tokens.size
        flat = np.repeat(kept, teacher.counts)
        teacher = replace(
            teacher,
            positions=teacher.positions[kept] + 1,
            counts=teacher.counts[kept],
            token_ids=teacher.token_ids[flat],
            logprobs=teacher.logprobs[flat],
        )
    return replace(row, sampled=sampled, logprobs=logprobs, teacher=teacher)


def shuffled_rewards(rows: Sequence[Row], random: np.random.Generator) -> list[Row]:
    """The scores of each group are dealt out anew among its rows."""
    groups = np.array([row.group for row in rows])
    scores = np.array([row.score for row in rows])
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        scores[members] = scores[random.permutation(members)]
    return [replace(row, score=float(score)) for row, score in zip(rows, scores, strict=True)]


def other_logprobs(rows: Sequence[Row], random: np.random.Generator) -> list[Row]:
    """Each sampled token has the sampling logprob of another one of its row, if there is one."""
    changed = []
    for row in rows:
        cycle = random.permutation(np.flatnonzero(row.sampled))
        logprobs = row.logprobs.copy()
        logprobs[cycle] = row.logprobs[np.roll(cycle, 1)]
        changed.append(replace(row, logprobs=logprobs))
    return changed


CONTROLS: Final[dict[str, Control]] = {
    "mask-shift": mask_shift,
    "shuffled-rewards": shuffled_rewards,
    "other-logprobs": other_logprobs,
}


def controlled(rows: list[Row], name: str | None, *, seed: int, step: int) -> list[Row]:
    """The rows with the fault of that name, drawn from seed and step; as they are if None."""
    if name is None:
        return rows
    return CONTROLS[name](rows, np.random.default_rng([seed, step]))
