"""The distillation payload: the teacher's values of a row, as safetensors with zstandard.

Arrays, m = scored positions, k = the teacher's most likely tokens kept:

- ``positions`` int32[m]: positions in the row, ascending; each was sampled. A sampled position
  that is not among them was not scored and has no value;
- ``token_ids`` int32[m, k]: the k most likely tokens under the teacher;
- ``logprobs`` float32[m, k]: their natural-log probabilities, descending;
- ``sampled_logprobs`` float32[m]: the teacher's value of the sampled id, at any rank;
- ``student_topk_logprobs`` float32[c], optional: the teacher's values of the student's recorded
  most likely tokens at these positions, flat, counts and order as in the row.

All are of the teacher's raw distribution. The encoding is deterministic.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from episode_operator.results import arrays
from episode_operator.results.arrays import MostLikely, PayloadError, check_form
from episode_operator.results.payload import TokenRow

ENCODING: Final = arrays.ENCODING

_NAMES = ("positions", "token_ids", "logprobs", "sampled_logprobs")
_OPTIONAL = "student_topk_logprobs"


@dataclass(frozen=True, slots=True, eq=False)
class Distillation:
    """The teacher's values of one row; shapes and meaning as in the module's docstring."""

    positions: NDArray[np.int32]
    token_ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    sampled_logprobs: NDArray[np.float32]
    student_topk_logprobs: NDArray[np.float32] | None = None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name -> array, in the order of the format; without the optional one if it is absent."""
        found: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in _NAMES}
        if self.student_topk_logprobs is not None:
            found[_OPTIONAL] = self.student_topk_logprobs
        return found

    def check(self, row: TokenRow | None = None) -> None:
        """Raise PayloadError unless lengths, types, finiteness and ranges are right.

        With the row (a checked one) also: that positions are sampled ones, that a sampled id has
        one value only, and that the student's tokens are those that were recorded.
        """
        m = self.positions.size
        check_form("positions", self.positions, np.int32, (m,))
        if m and (self.positions[0] < 0 or np.any(self.positions[1:] <= self.positions[:-1])):
            raise PayloadError("positions: negative or not ascending")
        k = self.token_ids.shape[1] if self.token_ids.ndim == 2 else 0
        check_form("token_ids", self.token_ids, np.int32, (m, max(k, 1)))
        check_form("logprobs", self.logprobs, np.float32, (m, k))
        check_form("sampled_logprobs", self.sampled_logprobs, np.float32, (m,))
        likely = MostLikely(
            self.token_ids.ravel(), self.logprobs.ravel(), np.repeat(np.arange(m), k)
        )
        likely.check("")
        arrays.check_logprobs("sampled_logprobs", self.sampled_logprobs)
        if self.student_topk_logprobs is not None:
            size = self.student_topk_logprobs.size
            check_form(_OPTIONAL, self.student_topk_logprobs, np.float32, (size,))
            arrays.check_logprobs(_OPTIONAL, self.student_topk_logprobs)
        if row is not None:
            self._check_against(row, likely)

    def _check_against(self, row: TokenRow, likely: MostLikely) -> None:
        if self.positions.size and int(self.positions[-1]) >= row.tokens.size:
            raise PayloadError(
                f"positions: {int(self.positions[-1])} in a row of {row.tokens.size} tokens"
            )
        sampled = row.mask[self.positions]
        if not sampled.all():
            wrong = int(self.positions[np.argmin(sampled)])
            raise PayloadError(f"positions: {wrong} was not sampled")
        likely.check_sampled("sampled_logprobs", row.tokens[self.positions], self.sampled_logprobs)
        if self.student_topk_logprobs is not None:
            if row.student_topk_counts is None:
                raise PayloadError(f"{_OPTIONAL}: the row has no student top-k")
            index = np.searchsorted(np.flatnonzero(row.mask), self.positions)
            expected = int(row.student_topk_counts[index].sum(dtype=np.int64))
            check_form(_OPTIONAL, self.student_topk_logprobs, np.float32, (expected,))

    def advantages(self, row: TokenRow) -> NDArray[np.float32]:
        """A_t float32[m]: the teacher's value of the sampled id minus its sampling logprob."""
        return self.sampled_logprobs - row.logprobs[self.positions]

    def row_advantages(self, row: TokenRow) -> NDArray[np.float32]:
        """A_t float32[n], one for each position of the row; NaN where none was scored.

        NaN and not 0, because 0 says that teacher and student agree: a loss that forgets to leave
        these positions out is NaN at once, and not silently wrong.
        """
        values = np.full(row.tokens.shape, np.nan, dtype=np.float32)
        values[self.positions] = self.advantages(row)
        return values


def encode(distillation: Distillation, row: TokenRow) -> bytes:
    """Encode the teacher's values of the row.

    Raises:
        PayloadError: they are not consistent, or not of this row; such are never stored.
    """
    distillation.check(row)
    return arrays.pack(distillation.arrays())


def decode(data: bytes, row: TokenRow | None = None) -> Distillation:
    """Decode and check what `encode` gave, against the row too if it is given.

    Raises:
        PayloadError: the bytes are no payload, or its arrays are not consistent.
    """
    found = arrays.unpack(data)
    if found.keys() - {_OPTIONAL} != set(_NAMES):
        raise PayloadError(f"arrays {sorted(found)}, expected {sorted(_NAMES)}")
    distillation = Distillation(**found)
    distillation.check(row)
    return distillation
