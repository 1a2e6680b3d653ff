"""A batch of Atropos as rows: every value checked, none made up.

An error here means that what was fetched is not what an environment should have sent.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from examples.trainer.errors import TrainerError

MASKED: Final = -100
MASKED_LOGPROB: Final = 1.0
_UNSUPPORTED: Final = ("advantages", "overrides", "group_overrides", "images")
_PLAIN_SAMPLING: Final = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
_MASS_TOLERANCE: Final = 0.01
"""How far above 1 the teacher's probabilities of a position may add up, as they are rounded."""


class BatchError(TrainerError):
    """A batch that must not be trained on."""


@dataclass(frozen=True, slots=True, eq=False)
class Teacher:
    """The teacher's most likely tokens at m positions, flat: c is the sum of the counts.

    Attributes:
        positions: int64[m], ascending; each was sampled.
        counts: int64[m], at least 1.
        token_ids: int64[c], position after position.
        logprobs: float32[c], natural logarithms.
    """

    positions: NDArray[np.int64]
    counts: NDArray[np.int64]
    token_ids: NDArray[np.int64]
    logprobs: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One sequence of n tokens.

    Attributes:
        tokens: int64[n].
        sampled: bool[n], which of them the policy sampled; these are trained. Never the first.
        logprobs: float32[n], natural logarithms at sampling time; 1.0 where not sampled.
        score: the reward.
        group: number of its group in the batch.
        teacher: what a teacher says of some of the sampled positions.
    """

    tokens: NDArray[np.int64]
    sampled: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    score: float
    group: int
    teacher: Teacher | None = None


def read(answer: bytes, *, size: int, max_token_length: int, vocabulary: int) -> list[Row]:
    """The rows of a batch, in its order.

    Args:
        answer: what `/batch` answered.
        size: sequences that the batch must have.
        max_token_length: sequences must have fewer tokens.
        vocabulary: token ids must be below.

    Raises:
        BatchError: something in it does not fit; the message says where.
    """
    rows: list[Row] = []
    for number, group in enumerate(_groups(answer)):
        try:
            rows.extend(_group(group, number))
        except BatchError as error:
            raise BatchError(f"group {number}, {error}") from error
    for row in rows:
        if row.tokens.size >= max_token_length:
            raise BatchError(f"a row of {row.tokens.size} tokens; fewer than {max_token_length}")
        ids = [row.tokens] if row.teacher is None else [row.tokens, row.teacher.token_ids]
        if any(one.min() < 0 or one.max() >= vocabulary for one in ids):
            raise BatchError(f"a token id that is none of the model's {vocabulary}")
    if len(rows) != size:
        raise BatchError(f"{len(rows)} rows instead of {size}; was Atropos registered by another?")
    return rows


def scored_positions(rows: Iterable[Row]) -> int:
    """How many positions of the rows a teacher has scored."""
    return sum(row.teacher.positions.size for row in rows if row.teacher is not None)


def _groups(answer: bytes) -> list[dict[str, Any]]:
    try:
        batch = json.loads(answer)["batch"]
    except (ValueError, KeyError, TypeError) as error:
        raise BatchError(f"this is no batch: {answer[:200]!r}") from error
    if not isinstance(batch, list) or not all(isinstance(group, dict) for group in batch):
        raise BatchError(f"this is no batch: {answer[:200]!r}")
    return batch


def _group(group: Mapping[str, Any], number: int) -> Iterator[Row]:
    for name in _UNSUPPORTED:
        if group.get(name):
            raise BatchError(f"{name!r}: not supported by this trainer")
    _check_sampling(group.get("generation_params") or {})
    names = ["tokens", "masks", "inference_logprobs", "scores"]
    taught = [name for name in ("distill_token_ids", "distill_logprobs") if group.get(name)]
    if len(taught) == 1:
        raise BatchError(f"{taught[0]!r} alone; a teacher has ids and logprobs")
    fields: list[Any] = [group.get(name) for name in names + taught]
    if not all(isinstance(field, list) for field in fields):
        raise BatchError(f"one of {names} is missing; the environment must send all of them")
    if len({len(field) for field in fields}) != 1:
        raise BatchError(f"{names + taught} have different numbers of rows")
    for index, parts in enumerate(zip(*fields, strict=True)):
        try:
            yield _row(number, dict(zip(names + taught, parts, strict=True)))
        except BatchError as error:
            raise BatchError(f"row {index}: {error}") from error


def _check_sampling(params: Mapping[str, Any]) -> None:
    """Probabilities are computed at temperature 1 without filters, so they must be sampled so."""
    for name, plain in _PLAIN_SAMPLING.items():
        if params.get(name, plain) != plain:
            raise BatchError(f"sampled with {name} {params[name]}; only {plain} can be trained on")


def _row(number: int, fields: Mapping[str, Any]) -> Row:
    ids, marks = _integers(fields["tokens"], "tokens"), _integers(fields["masks"], "masks")
    values, score = _floats(fields["inference_logprobs"], "inference_logprobs"), fields["scores"]
    if not ids.size == marks.size == values.size:
        raise BatchError(f"{ids.size} tokens, {marks.size} masks, {values.size} logprobs")
    sampled = marks != MASKED
    if not sampled.any() or sampled[0]:
        raise BatchError("a row must have sampled tokens, and not begin with one")
    if not np.array_equal(marks[sampled], ids[sampled]):
        raise BatchError(f"a mask is neither {MASKED} nor its token")
    if not _are_logprobs(values[sampled]):
        raise BatchError("a sampled token's logprob is not finite, or above 0")
    if not np.all(values[~sampled] == MASKED_LOGPROB):
        raise BatchError(f"a logprob other than {MASKED_LOGPROB} where nothing was sampled")
    if type(score) not in (int, float) or not np.isfinite(score):
        raise BatchError(f"the score {score!r} is no finite number")
    teacher = None
    if "distill_token_ids" in fields:
        teacher = _teacher(fields["distill_token_ids"], fields["distill_logprobs"], sampled)
    return Row(ids, sampled, values, float(score), number, teacher)


def _teacher(
    ids: list[list[int]], logprobs: list[list[float]], sampled: NDArray[np.bool_]
) -> Teacher | None:
    """None if no position was scored."""
    counts = np.array([len(each) for each in ids], dtype=np.int64)
    if counts.size != sampled.size or [len(each) for each in logprobs] != counts.tolist():
        raise BatchError("the teacher's ids and logprobs do not have the shape of the row")
    if not counts.any():
        return None
    positions = np.flatnonzero(counts)
    if not sampled[positions].all():
        raise BatchError("a teacher's value where nothing was sampled")
    token_ids = _integers([one for each in ids for one in each], "distill_token_ids")
    values = _floats([one for each in logprobs for one in each], "distill_logprobs")
    if not _are_logprobs(values):
        raise BatchError("a teacher's logprob is not finite, or above 0")
    starts = np.concatenate([[0], np.cumsum(counts[positions])[:-1]])
    mass = np.add.reduceat(np.exp(values.astype(np.float64)), starts)
    if mass.max() > 1 + _MASS_TOLERANCE:
        raise BatchError(f"the teacher's probabilities of a position add up to {mass.max():.4f}")
    if any(len(set(each)) != len(each) for each in ids):
        raise BatchError("a teacher's token twice at one position")
    return Teacher(positions, counts[positions], token_ids, values)


def _integers(values: list[int], name: str) -> NDArray[np.int64]:
    if not isinstance(values, list) or not all(map(_is_id, values)):
        raise BatchError(f"{name}: not a list of integers of 32 bits")
    return np.array(values, dtype=np.int64)


def _is_id(value: object) -> bool:
    return type(value) is int and abs(value) < 2**31


def _floats(values: list[float], name: str) -> NDArray[np.float32]:
    if not isinstance(values, list) or not all(type(one) in (int, float) for one in values):
        raise BatchError(f"{name}: not a list of numbers")
    return np.array(values, dtype=np.float32)


def _are_logprobs(values: NDArray[np.float32]) -> bool:
    return bool(np.all(np.isfinite(values) & (values <= 0)))
