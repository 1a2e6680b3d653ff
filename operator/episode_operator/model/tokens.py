"""The token buffer: one episode as one training row. Pure, append only.

The row alternates inserted ids (prompts, tool results, what the template puts between turns;
masked) and sampled ids (the policy's own; trained on). Ids never change once they are in.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from episode_operator.model.wire import VersionSpan

UNKNOWN_VERSION = ""
"""Version of sampled tokens where the server does not label its weights."""


@dataclass(frozen=True, kw_only=True)
class TopTokens:
    """The most likely tokens at each of the s sampled positions of a row, one after the other.

    counts int16[s]; token_ids int32[c] and logprobs float32[c], the best first at each position;
    c is the sum of counts. Tokens that the sampling parameters excluded have no logprob and are
    left out, so a position may have fewer than were asked for.
    """

    counts: NDArray[np.int16]
    token_ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    """A finished row of n tokens.

    tokens int32[n]; mask bool[n], true where the policy sampled; logprobs float32[n], the sampling
    logprob where mask is true and 0.0 elsewhere, always finite; turn int16[n], from 0: the sampled
    turn, and for inserted ids the turn they are a prompt of; versions, sorted, cover exactly the
    sampled positions; top is None unless the most likely tokens were asked for.
    """

    tokens: NDArray[np.int32]
    mask: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    turn: NDArray[np.int16]
    versions: tuple[VersionSpan, ...]
    top: TopTokens | None


class TokenBuffer:
    """The growing row. Every method that adds checks first and adds all or nothing.

    Turn t is: the ids inserted before it, then the ids sampled in it. `insert` may be called
    several times before a `sample`; every `sample` ends a turn.
    """

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._mask: list[bool] = []
        self._logprobs: list[float] = []
        self._turn: list[int] = []
        self._versions: list[VersionSpan] = []
        self._top: list[Sequence[tuple[int, float]]] = []
        self._turns = 0

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def turns(self) -> int:
        """Turns sampled so far."""
        return self._turns

    @property
    def ids(self) -> list[int]:
        """All ids, a copy: the next prompt."""
        return list(self._ids)

    @property
    def sampled_count(self) -> int:
        """Ids the policy sampled."""
        return sum(self._mask)

    def insert(self, ids: Sequence[int]) -> None:
        """Add ids the policy did not sample, to the prompt of the next turn."""
        _check_ids(ids)
        self._extend(ids, sampled=False, logprobs=[0.0] * len(ids))

    def sample(
        self,
        ids: Sequence[int],
        logprobs: Sequence[float],
        versions: Sequence[VersionSpan] = (),
        *,
        top: Sequence[Sequence[tuple[int, float]]] = (),
    ) -> None:
        """Add a turn: sampled `ids` [n], their `logprobs` [n], `versions` with positions in [0, n),
        and the most likely (id, logprob) of each position in `top` [n] (empty: not asked for).

        Raises ValueError unless there is a prompt, the lengths fit, every logprob is finite and at
        most 0, the versions cover the ids without gap (or are empty: unknown), and all turns or
        none have the most likely tokens.
        """
        if not self._ids:
            raise ValueError("a turn needs a prompt before it")
        _check_ids(ids)
        if len(logprobs) != len(ids):
            raise ValueError(f"{len(ids)} ids with {len(logprobs)} logprobs")
        if not all(math.isfinite(one) and one <= 0.0 for one in logprobs):
            raise ValueError("a sampling logprob is not finite or above 0")
        if top and len(top) != len(ids):
            raise ValueError(f"{len(ids)} ids with the most likely tokens of {len(top)}")
        if ids and self.sampled_count and bool(top) != bool(self._top):
            raise ValueError("only some turns have the most likely tokens")
        spans = list(versions) or [
            VersionSpan(version=UNKNOWN_VERSION, start=0, end=len(ids)),
        ]
        edges = [0, *(span.end for span in spans)]
        if [span.start for span in spans] != edges[:-1] or edges[-1] != len(ids):
            raise ValueError(f"weight versions do not cover the {len(ids)} ids of the turn")
        offset = len(self._ids)
        self._versions.extend(span.shifted(offset) for span in spans if span.start < span.end)
        self._extend(ids, sampled=True, logprobs=logprobs)
        self._top.extend(top)
        self._turns += 1

    def _extend(self, ids: Sequence[int], *, sampled: bool, logprobs: Sequence[float]) -> None:
        self._ids.extend(ids)
        self._mask.extend([sampled] * len(ids))
        self._logprobs.extend(logprobs)
        self._turn.extend([self._turns] * len(ids))

    def row(self) -> TokenRow:
        """The row so far, as arrays of its own."""
        return TokenRow(
            tokens=np.array(self._ids, dtype=np.int32),
            mask=np.array(self._mask, dtype=np.bool_),
            logprobs=np.array(self._logprobs, dtype=np.float32),
            turn=np.array(self._turn, dtype=np.int16),
            versions=tuple(self._versions),
            top=self._top_tokens(),
        )

    def _top_tokens(self) -> TopTokens | None:
        if not self._top:
            return None
        pairs = [pair for position in self._top for pair in position]
        return TopTokens(
            counts=np.array([len(position) for position in self._top], dtype=np.int16),
            token_ids=np.array([token_id for token_id, _ in pairs], dtype=np.int32),
            logprobs=np.array([logprob for _, logprob in pairs], dtype=np.float32),
        )


def _check_ids(ids: Sequence[int]) -> None:
    if not all(type(one) is int and 0 <= one < 2**31 for one in ids):
        raise ValueError("token ids must be integers in [0, 2**31)")
