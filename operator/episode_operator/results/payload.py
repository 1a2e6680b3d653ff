"""The token payload: one training row as safetensors, compressed with zstandard.

Arrays, n = tokens in the row, s = sampled ones:

- ``tokens`` int32[n]: the ids, exactly as the model saw and sampled them;
- ``mask`` bool[n]: true where the model sampled the id;
- ``logprobs`` float32[n]: natural-log probability at sampling time; 0 where the mask is false;
- ``turn`` int16[n]: the turn that sampled or first contained the id, from 0.

All or none of these, the most likely tokens of the distribution sampled from:

- ``student_topk_counts`` int16[s]: how many were recorded of each sampled position, in the row's
  order; tokens that sampling excluded have no value, so there may be fewer than asked for;
- ``student_topk_token_ids`` int32[c]: their ids, position after position, c = sum of the counts;
- ``student_topk_logprobs`` float32[c]: their values, descending within a position.

Weight versions are spans in the EpisodeResult itself. The encoding is deterministic.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from episode_operator.results import arrays
from episode_operator.results.arrays import MostLikely, PayloadError, check_form

ENCODING: Final = arrays.ENCODING

_ROW = {"tokens": np.int32, "mask": np.bool_, "logprobs": np.float32, "turn": np.int16}
_STUDENT_TOPK = {
    "student_topk_counts": np.int16,
    "student_topk_token_ids": np.int32,
    "student_topk_logprobs": np.float32,
}


@dataclass(frozen=True, slots=True, eq=False)
class TokenRow:
    """One training row; shapes and meaning as in the module's docstring."""

    tokens: NDArray[np.int32]
    mask: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    turn: NDArray[np.int16]
    student_topk_counts: NDArray[np.int16] | None = None
    student_topk_token_ids: NDArray[np.int32] | None = None
    student_topk_logprobs: NDArray[np.float32] | None = None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name -> array, in the order of the format; without those that were not recorded."""
        every = {name: getattr(self, name) for name in (*_ROW, *_STUDENT_TOPK)}
        return {name: array for name, array in every.items() if array is not None}

    def check(self) -> None:
        """Raise PayloadError unless lengths, types, finiteness and ranges are right."""
        n = self.tokens.size
        for name, dtype in _ROW.items():
            check_form(name, getattr(self, name), dtype, (n,))
        arrays.check_ids("tokens", self.tokens)
        if np.any(self.mask.view(np.uint8) > 1):
            raise PayloadError("mask: a byte that is neither 0 nor 1")
        arrays.check_logprobs("logprobs", self.logprobs)
        if np.any(self.logprobs[~self.mask]):
            raise PayloadError("logprobs: a value at a position that was not sampled")
        if n and (int(self.turn[0]) < 0 or np.any(self.turn[1:] < self.turn[:-1])):
            raise PayloadError("turn: negative or not ascending")
        self._check_student_topk()

    def _check_student_topk(self) -> None:
        recorded = self.arrays().keys() & _STUDENT_TOPK.keys()
        counts, ids = self.student_topk_counts, self.student_topk_token_ids
        logprobs = self.student_topk_logprobs
        if counts is None or ids is None or logprobs is None:
            if recorded:
                raise PayloadError(
                    f"{min(recorded)}: recorded without {min(_STUDENT_TOPK.keys() - recorded)}"
                )
            return
        sampled = int(self.mask.sum())
        check_form("student_topk_counts", counts, np.int16, (sampled,))
        if np.any(counts < 0):
            raise PayloadError("student_topk_counts: negative")
        flat = (int(counts.sum(dtype=np.int64)),)
        check_form("student_topk_token_ids", ids, np.int32, flat)
        check_form("student_topk_logprobs", logprobs, np.float32, flat)
        likely = MostLikely(ids, logprobs, np.repeat(np.arange(sampled), counts))
        likely.check("student_topk_")
        likely.check_sampled("logprobs", self.tokens[self.mask], self.logprobs[self.mask])


def encode(row: TokenRow) -> bytes:
    """Encode a row.

    Raises:
        PayloadError: the row is not consistent; nothing inconsistent is ever stored.
    """
    row.check()
    return arrays.pack(row.arrays())


def decode(data: bytes) -> TokenRow:
    """Decode and check a row.

    Raises:
        PayloadError: the bytes are no payload, or its arrays are not consistent.
    """
    found = arrays.unpack(data)
    if not _ROW.keys() <= found.keys() <= _ROW.keys() | _STUDENT_TOPK.keys():
        raise PayloadError(f"arrays {sorted(found)}, expected {sorted(_ROW)}")
    row = TokenRow(**found)
    row.check()
    return row
