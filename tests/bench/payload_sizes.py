"""What payloads cost: bytes per token or per (token, k), and MB/s, against JSON.

The rows are made up: ids as unevenly frequent as words are, logprobs with the random low bits that
those of a model have.
"""

import gzip
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import orjson
from numpy.typing import NDArray

from episode_operator.results import distillation, payload
from episode_operator.results.distillation import Distillation
from episode_operator.results.payload import TokenRow

VOCABULARY = 150_000
TURN_TOKENS = 256
JSON_GZIP_LEVEL = 6


@dataclass(frozen=True)
class PayloadSize:
    """One payload.

    Attributes:
        unit: what sizes are divided by, a token of the row or a (token, k).
        values: how many of these there are.
        raw_bytes: of its arrays in memory; MB/s are of these.
        encoded_bytes: as stored, before base64.
        json_bytes, gzip_bytes: the same arrays as JSON, and that as gzip of level 6.
        encode_seconds, decode_seconds: best of the repeats, checks included.
        json_seconds: to write the JSON and compress it.
    """

    name: str
    unit: str
    values: int
    raw_bytes: int
    encoded_bytes: int
    json_bytes: int
    gzip_bytes: int
    encode_seconds: float
    decode_seconds: float
    json_seconds: float

    @property
    def encode_rate(self) -> float:
        """MB/s."""
        return self.raw_bytes / self.encode_seconds / 1e6

    @property
    def decode_rate(self) -> float:
        """MB/s."""
        return self.raw_bytes / self.decode_seconds / 1e6

    @property
    def json_rate(self) -> float:
        """MB/s of JSON and gzip."""
        return self.raw_bytes / self.json_seconds / 1e6


def measure(
    *, tokens: int = 8192, k: int = 50, scored: float = 0.25, repeats: int = 3, seed: int = 7
) -> list[PayloadSize]:
    """A row of so many tokens, half of them sampled; the same with a student top-k; and the
    teacher's top-k at a part of its positions.
    """
    random = np.random.default_rng(seed)
    row = _row(random, tokens)
    with_topk = _with_student_topk(random, row, k)
    taught = _taught(random, row, k, int(scored * tokens))
    pairs = int(row.mask.sum()) * k
    codecs = (
        _Codec("tokens", "token", tokens, row, lambda: payload.encode(row), payload.decode),
        _Codec(
            "tokens with student top-k",
            "(token, k)",
            pairs,
            with_topk,
            lambda: payload.encode(with_topk),
            payload.decode,
        ),
        _Codec(
            "distillation",
            "(token, k)",
            taught.token_ids.size,
            taught,
            lambda: distillation.encode(taught, row),
            lambda data: distillation.decode(data, row),
        ),
    )
    return [_size(codec, repeats) for codec in codecs]


@dataclass(frozen=True)
class _Codec:
    name: str
    unit: str
    values: int
    content: TokenRow | Distillation
    encode: Callable[[], bytes]
    decode: Callable[[bytes], object]


def _size(codec: _Codec, repeats: int) -> PayloadSize:
    data = codec.encode()
    arrays = codec.content.arrays()
    lists = {key: array.tolist() for key, array in arrays.items()}
    text = orjson.dumps(lists)
    return PayloadSize(
        name=codec.name,
        unit=codec.unit,
        values=codec.values,
        raw_bytes=sum(array.nbytes for array in arrays.values()),
        encoded_bytes=len(data),
        json_bytes=len(text),
        gzip_bytes=len(gzip.compress(text, JSON_GZIP_LEVEL)),
        encode_seconds=_best(repeats, codec.encode),
        decode_seconds=_best(repeats, lambda: codec.decode(data)),
        json_seconds=_best(repeats, lambda: gzip.compress(orjson.dumps(lists), JSON_GZIP_LEVEL)),
    )


def _best(repeats: int, work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def _row(random: np.random.Generator, n: int) -> TokenRow:
    turn = (np.arange(n) // (2 * TURN_TOKENS)).astype(np.int16)
    mask = np.arange(n) // TURN_TOKENS % 2 == 1
    logprobs = np.where(mask, -random.exponential(0.5, n), 0).astype(np.float32)
    return TokenRow(tokens=_ids(random, n), mask=mask, logprobs=logprobs, turn=turn)


def _ids(random: np.random.Generator, *shape: int) -> NDArray[np.int32]:
    return (random.zipf(1.3, shape) % VOCABULARY).astype(np.int32)


def _top(
    random: np.random.Generator, m: int, k: int, sampled: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Different ids for each of m positions, the sampled one among them, and falling values."""
    ids = np.empty((m, k), dtype=np.int32)
    for at in range(m):
        found = np.unique(np.append(_ids(random, 20 * k), sampled[at]))
        ids[at] = random.permutation(found[found != sampled[at]])[:k]
    ids[np.arange(m), random.integers(0, k, m)] = sampled
    steps = random.exponential(0.2, (m, k))
    return ids, -np.cumsum(steps, axis=1).astype(np.float32)


def _with_student_topk(random: np.random.Generator, row: TokenRow, k: int) -> TokenRow:
    sampled = row.tokens[row.mask]
    ids, logprobs = _top(random, sampled.size, k, sampled)
    own = row.logprobs.copy()
    own[row.mask] = logprobs[ids == sampled[:, None]]
    return TokenRow(
        tokens=row.tokens,
        mask=row.mask,
        logprobs=own,
        turn=row.turn,
        student_topk_counts=np.full(sampled.size, k, dtype=np.int16),
        student_topk_token_ids=ids.ravel(),
        student_topk_logprobs=logprobs.ravel(),
    )


def _taught(random: np.random.Generator, row: TokenRow, k: int, m: int) -> Distillation:
    positions = np.flatnonzero(row.mask)[:m].astype(np.int32)
    sampled = row.tokens[positions]
    ids, logprobs = _top(random, positions.size, k, sampled)
    return Distillation(
        positions=positions,
        token_ids=ids,
        logprobs=logprobs,
        sampled_logprobs=logprobs[ids == sampled[:, None]],
    )
