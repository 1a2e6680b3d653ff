"""Groups of made-up rows, right in every way, and what a trainer must find of them."""

from dataclasses import replace
from typing import Any

import numpy as np

from episode_operator.api.agent import Sampling
from episode_operator.api.result import (
    Counts,
    EpisodeReference,
    EpisodeResult,
    ModelReference,
    WeightSpan,
)
from episode_operator.results.distillation import Distillation
from episode_operator.results.payload import TokenRow
from episode_operator.results.record import EpisodeRecord
from tests.unit.records import result_spec
from trainer_bridge.training import TrainingGroup

VOCABULARY = 150_000
CONVERSATION: list[dict[str, Any]] = [
    {"role": "user", "content": "count to two"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function"}]},
    {"role": "tool", "content": "1\n2", "tool_call_id": "1"},
    {"role": "assistant", "content": "one, two: ünï©ødé 😀"},
]


def row(random: np.random.Generator, tokens: int, *, turn_tokens: int = 7) -> TokenRow:
    """Turns of so many tokens, one after the other: the first half of each inserted."""
    within = np.arange(tokens) % turn_tokens
    mask = within >= turn_tokens // 2
    mask[-1] = True
    logprobs = np.where(mask, -random.exponential(1.0, tokens), 0).astype(np.float32)
    return TokenRow(
        tokens=random.integers(0, VOCABULARY, tokens, dtype=np.int32),
        mask=mask,
        logprobs=logprobs,
        turn=(np.arange(tokens) // turn_tokens).astype(np.int16),
    )


def taught(random: np.random.Generator, row: TokenRow, *, k: int, scored: int) -> Distillation:
    """A teacher that scored the first so many sampled positions; k probabilities are at most 1."""
    positions = np.flatnonzero(row.mask)[:scored].astype(np.int32)
    m = positions.size
    logprobs = -np.sort(random.exponential(3.0, (m, k)).astype(np.float32), axis=1)
    logprobs -= np.float32(np.log(k))
    offsets = np.cumsum(random.integers(1, 50, (m, k), dtype=np.int32), axis=1, dtype=np.int32)
    sampled = row.tokens[positions]
    token_ids = (sampled[:, None] + offsets) % VOCABULARY  # never the sampled one itself
    return Distillation(positions, token_ids, logprobs, logprobs[:, -1] - np.float32(1))


def record(
    row: TokenRow, *, member: int = 0, distillation: Distillation | None = None, **changes: Any
) -> EpisodeRecord:
    """The record of an Episode of its own."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], row.mask, [False]])))
    spans = [
        WeightSpan(version="step-1", start=start, end=end) for start, end in edges.reshape(-1, 2)
    ]
    known = {
        "episode": EpisodeReference(name=f"hello-{member}", uid=f"uid-{member}"),
        "reward": member / 4,
        "model": ModelReference(
            name="policy", logprobs_mode="processed", sampling=Sampling(seed=member)
        ),
        "counts": Counts(turns=1, tokens=row.tokens.size, sampled_tokens=int(row.mask.sum())),
        "weight_versions": spans,
    }
    result = EpisodeResult(
        metadata={"name": f"hello-{member}"}, spec=result_spec(**{**known, **changes})
    )
    return EpisodeRecord(result=result, messages=CONVERSATION, row=row, distillation=distillation)


def group(
    seed: int = 0,
    *,
    size: int = 4,
    tokens: int = 40,
    turn_tokens: int = 7,
    k: int = 3,
    scored: int = 0,
    unseen: int = 1,
) -> TrainingGroup:
    """A group of rows of different lengths.

    With `scored` a teacher has scored so many positions of each member, but has not seen the last
    `unseen` members at all.
    """
    random = np.random.default_rng(seed)
    members = []
    for member in range(size):
        made = row(random, tokens + member, turn_tokens=turn_tokens)
        with_teacher = scored > 0 and member < size - unseen
        distillation = taught(random, made, k=k, scored=scored) if with_teacher else None
        members.append(record(made, member=member, distillation=distillation))
    return TrainingGroup(f"run-{seed}", "task", "family", 0, tuple(members))


def changed(group: TrainingGroup, index: int, **parts: Any) -> TrainingGroup:
    """The group with other parts in one of its records."""
    members = list(group.members)
    members[index] = replace(members[index], **parts)
    return replace(group, members=tuple(members))
