"""Named arrays as safetensors, compressed with zstandard; and what is checked of any of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from episode_operator.results.compression import CompressionError, compress, decompress

ENCODING: Final = "safetensors+zstd"

_RANK_TOLERANCE = 1e-3
"""A value outside the most likely tokens may come from another computation than theirs."""


class PayloadError(ValueError):
    """Arrays that do not fit together, or bytes that hold none; the text begins with the name."""


def pack(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Encode the arrays; deterministic."""
    return compress(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def unpack(data: bytes) -> dict[str, NDArray[Any]]:
    """Decode what `pack` gave.

    Raises:
        PayloadError: the bytes are no arrays.
    """
    try:
        return load(decompress(data))
    except (CompressionError, SafetensorError, KeyError) as error:  # KeyError: a type numpy lacks
        raise PayloadError(f"not a payload: {error}") from error


def check_form(name: str, array: NDArray[Any], dtype: DTypeLike, shape: tuple[int, ...]) -> None:
    """Raise PayloadError unless the array has this type and shape."""
    if array.dtype != dtype or array.shape != shape:
        raise PayloadError(f"{name}: {array.dtype}{array.shape}, expected {np.dtype(dtype)}{shape}")


def check_ids(name: str, ids: NDArray[np.int32]) -> None:
    """Raise PayloadError if an id is negative."""
    _refuse(name, "negative id", ids < 0)


def check_logprobs(name: str, logprobs: NDArray[np.float32]) -> None:
    """Raise PayloadError unless every value is finite and at most 0."""
    _refuse(name, "not finite", ~np.isfinite(logprobs))
    _refuse(name, "above 0", logprobs > 0)


def _refuse(name: str, what: str, wrong: NDArray[np.bool_]) -> None:
    if wrong.any():
        place = ", ".join(str(int(index)) for index in np.argwhere(wrong)[0])
        raise PayloadError(f"{name}: {what} at {place}")


@dataclass(frozen=True, slots=True)
class MostLikely:
    """The most likely tokens of positions, flat.

    `ids`, `logprobs` and `position` have one value for each token: its id, its value, and the
    index of the position it belongs to, ascending.
    """

    ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    position: NDArray[np.intp]

    def check(self, prefix: str) -> None:
        """Raise PayloadError unless the ids of a position differ and its values fall."""
        check_ids(f"{prefix}token_ids", self.ids)
        check_logprobs(f"{prefix}logprobs", self.logprobs)
        same = self.position[1:] == self.position[:-1]
        rising = same & (self.logprobs[1:] > self.logprobs[:-1])
        _refuse(f"{prefix}logprobs", "not descending after flat index", rising)
        pairs = np.sort(self.position.astype(np.int64) << 32 | self.ids)
        twice = pairs[1:] == pairs[:-1]
        if twice.any():
            entry, token_id = divmod(int(pairs[np.argmax(twice)]), 1 << 32)
            raise PayloadError(f"{prefix}token_ids: id {token_id} twice at entry {entry}")

    def check_sampled(
        self, name: str, ids: NDArray[np.int32], logprobs: NDArray[np.float32]
    ) -> None:
        """Raise PayloadError unless the sampled ids, one for each position, fit to these.

        A sampled id that is among them has the same value here; one that is not is not more
        likely than the last of them.
        """
        among = self.ids == ids[self.position]
        differ = among & (self.logprobs != logprobs[self.position])
        if differ.any():
            index = int(np.argmax(differ))
            at = self.position[index]
            raise PayloadError(
                f"{name}: {logprobs[at]} at entry {at}, but {self.logprobs[index]} for the same "
                f"id {ids[at]} among the most likely tokens"
            )
        least = np.full(ids.shape, np.inf, dtype=np.float32)
        least[self.position] = self.logprobs
        least[self.position[among]] = np.inf
        _refuse(
            name,
            "not among the most likely tokens, but more likely than the last of them,",
            logprobs > least + _RANK_TOLERANCE,
        )
