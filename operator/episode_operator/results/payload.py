"""The token payload: one training row as safetensors, compressed with zstandard.

Arrays, n = tokens in the row:

- ``tokens`` int32[n]: the ids, exactly as the model saw and sampled them;
- ``mask`` bool[n]: true where the model sampled the id;
- ``logprobs`` float32[n]: natural-log probability at sampling time; 0 where the mask is false;
- ``turn`` int16[n]: the turn that sampled or first contained the id, from 0.

Weight versions are spans in the EpisodeResult itself. The encoding is deterministic.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from episode_operator.results.compression import CompressionError, compress, decompress

ENCODING: Final = "safetensors+zstd"

_DTYPES = {"tokens": np.int32, "mask": np.bool_, "logprobs": np.float32, "turn": np.int16}


class PayloadError(ValueError):
    """A payload whose arrays do not fit together, or bytes that are not one."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenRow:
    """One training row; shapes and meaning as in the module's docstring."""

    tokens: NDArray[np.int32]
    mask: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    turn: NDArray[np.int16]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name -> array, in the order of the format."""
        return {name: getattr(self, name) for name in _DTYPES}

    def check(self) -> None:
        """Raise PayloadError unless lengths, types, finiteness and ranges are right."""
        n = self.tokens.size
        for name, dtype in _DTYPES.items():
            array: NDArray[Any] = getattr(self, name)
            if array.dtype != dtype or array.shape != (n,):
                raise PayloadError(
                    f"{name}: {array.dtype}{array.shape}, expected {np.dtype(dtype)}({n},)"
                )
        if n and int(self.tokens.min()) < 0:
            raise PayloadError(f"tokens: negative id at {int(self.tokens.argmin())}")
        if np.any(self.mask.view(np.uint8) > 1):
            raise PayloadError("mask: a byte that is neither 0 nor 1")
        if not np.isfinite(self.logprobs).all():
            raise PayloadError(
                f"logprobs: not finite at {int(np.argmin(np.isfinite(self.logprobs)))}"
            )
        if n and float(self.logprobs.max()) > 0:
            raise PayloadError(f"logprobs: above 0 at {int(self.logprobs.argmax())}")
        if np.any(self.logprobs[~self.mask]):
            raise PayloadError("logprobs: a value at a position that was not sampled")
        if n and (int(self.turn[0]) < 0 or np.any(self.turn[1:] < self.turn[:-1])):
            raise PayloadError("turn: negative or not ascending")


def encode(row: TokenRow) -> bytes:
    """Encode a row.

    Raises:
        PayloadError: the row is not consistent; nothing inconsistent is ever stored.
    """
    row.check()
    tensors = {name: np.ascontiguousarray(array) for name, array in row.arrays().items()}
    return compress(save(tensors))


def decode(data: bytes) -> TokenRow:
    """Decode and check a row.

    Raises:
        PayloadError: the bytes are no payload, or its arrays are not consistent.
    """
    try:
        tensors = load(decompress(data))
    except (CompressionError, SafetensorError, KeyError) as error:  # KeyError: a type numpy lacks
        raise PayloadError(f"not a token payload: {error}") from error
    if tensors.keys() != _DTYPES.keys():
        raise PayloadError(f"arrays {sorted(tensors)}, expected {sorted(_DTYPES)}")
    row = TokenRow(**tensors)
    row.check()
    return row
