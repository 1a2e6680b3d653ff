"""A group as the JSON that `/scored_data` takes.

For a group of g members, of n tokens each (n differs between members):

- ``tokens`` int[g][n]; ``masks`` int[g][n]: the id where it was sampled, else -100;
- ``scores`` float[g]: the rewards;
- ``inference_logprobs`` float[g][n]: natural-log probability at sampling time, 1.0 where the mask
  is -100, which no logprob can be;
- ``distill_token_ids`` int[g][n][k] and ``distill_logprobs`` float[g][n][k]: the teacher's k most
  likely tokens at a position, `[]` where none was scored; absent when none was in the whole group;
- ``messages``: the conversations, if they are wanted;
- ``generation_params``: model, logprobs mode and sampling parameters;
- ``env_id``.

Every float is the shortest decimal of a float32, so it is read back as exactly that float32.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from episode_operator.results.record import EpisodeRecord
from trainer_bridge.sinks.atropos.settings import AtroposSettings
from trainer_bridge.sinks.checks import Refusal, refuse
from trainer_bridge.training import TrainingGroup

MASKED: Final = -100
MASKED_LOGPROB: Final = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Taught:
    """The teacher's values: positions int32[m], token_ids int32[m, k], logprobs float32[m, k]."""

    positions: NDArray[np.int32]
    token_ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """The arrays of one member, all of its n tokens; as in the module's docstring."""

    tokens: NDArray[np.int32]
    masks: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    taught: Taught | None

    @classmethod
    def of(cls, record: EpisodeRecord, settings: AtroposSettings) -> "Member":
        """From a record that has a row."""
        row, distillation, decimals = record.row, record.distillation, settings.logprob_decimals
        assert row is not None, "a group is checked before it is encoded"
        logprobs = np.where(row.mask, _rounded(row.logprobs, decimals), np.float32(MASKED_LOGPROB))
        taught = None
        if distillation is not None:
            kept = slice(settings.distill_top_k)
            taught = Taught(
                distillation.positions,
                np.ascontiguousarray(distillation.token_ids[:, kept]),
                _rounded(np.ascontiguousarray(distillation.logprobs[:, kept]), decimals),
            )
        masks = np.where(row.mask, row.tokens, np.int32(MASKED))
        return cls(row.tokens, masks, logprobs, taught)

    def faults(self) -> Iterator[str]:
        """What must not be sent of it: a second look, at what was made."""
        sampled, taught = self.masks != MASKED, self.taught
        if not self.tokens.shape == self.masks.shape == self.logprobs.shape:
            yield "tokens, masks and logprobs differ in length"
        if not np.array_equal(self.masks[sampled], self.tokens[sampled]):
            yield "a mask is not its token"
        if not np.all(self.logprobs[~sampled] == MASKED_LOGPROB):
            yield "a logprob at a masked position"
        if not _are_logprobs(self.logprobs[sampled]):
            yield "a logprob is not finite or above 0"
        if taught is not None:
            if taught.token_ids.shape != taught.logprobs.shape:
                yield "the teacher's ids and logprobs differ in shape"
            if not np.all(sampled[taught.positions]):
                yield "a teacher's value at a masked position"
            if not _are_logprobs(taught.logprobs):
                yield "a teacher's logprob is not finite or above 0"


def encode(group: TrainingGroup, env_id: int, settings: AtroposSettings) -> bytes:
    """The body of the request for a checked group, not compressed.

    Raises:
        RefusedError: Malformed; what was made of the group must not be sent.
    """
    members = [Member.of(record, settings) for record in group.members]
    for record, member in zip(group.members, members, strict=True):
        if fault := next(member.faults(), None):
            raise refuse(Refusal.MALFORMED, group, f"{record.result.spec.episode.name}: {fault}")
    scores = group.scores
    if len(scores) != len(members) or not all(map(isfinite, scores)):
        raise refuse(Refusal.MALFORMED, group, f"scores {scores} of {len(members)} members")
    fields: dict[str, Any] = {
        "tokens": [member.tokens for member in members],
        "masks": [member.masks for member in members],
        "scores": scores,
        "inference_logprobs": [member.logprobs for member in members],
        "generation_params": _generation_params(group.members[0]),
        "env_id": env_id,
    }
    if settings.include_messages:
        fields["messages"] = [record.messages for record in group.members]
    body = _dumps(fields)
    if not group.distilled:
        return body
    token_ids = _joined(_ragged(member, "token_ids") for member in members)
    logprobs = _joined(_ragged(member, "logprobs") for member in members)
    opened = (body[:-1], b',"distill_token_ids":')
    return b"".join((*opened, *token_ids, b',"distill_logprobs":', *logprobs, b"}"))


def _are_logprobs(values: NDArray[np.float32]) -> bool:
    return bool(np.all(np.isfinite(values) & (values <= 0)))


def _rounded(values: NDArray[np.float32], decimals: int | None) -> NDArray[np.float32]:
    if decimals is None:
        return values
    return np.round(values.astype(np.float64), decimals).astype(np.float32)


def _generation_params(record: EpisodeRecord) -> dict[str, Any]:
    """The same for all members but for their seeds, which are left out."""
    model = record.result.spec.model
    assert model is not None, "a group is checked before it is encoded"
    sampling = model.sampling.model_dump(exclude={"seed", "top_logprobs"})
    return {"model": model.name, "logprobs_mode": model.logprobs_mode, **sampling}


def _ragged(member: Member, name: str) -> Iterator[bytes]:
    """JSON of [n][k] of a member, `[]` where nothing was scored."""
    return _joined((run,) for run in _runs(member, name))


def _joined(items: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    """A JSON list of items that are in pieces, in pieces: copied only once."""
    yield b"["
    for index, item in enumerate(items):
        if index:
            yield b","
        yield from item
    yield b"]"


def _runs(member: Member, name: str) -> Iterator[bytes]:
    """JSON of runs of neighbouring positions that were scored, or were not, without brackets."""
    position = 0
    if member.taught is not None and member.taught.positions.size:
        positions, values = member.taught.positions, getattr(member.taught, name)
        breaks = np.flatnonzero(np.diff(positions) != 1) + 1
        for start, end in pairwise((0, *breaks.tolist(), positions.size)):
            first = int(positions[start])
            if first > position:
                yield _unscored(first - position)
            yield _dumps(values[start:end])[1:-1]
            position = first + end - start
    if position < member.tokens.size:
        yield _unscored(member.tokens.size - position)


def _unscored(count: int) -> bytes:
    return b",".join([b"[]"] * count)


def _dumps(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
