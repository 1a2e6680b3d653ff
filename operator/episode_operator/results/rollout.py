"""One Episode as `episodectl show` shows it: plain values, for people and for programs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from episode_operator.results.record import EpisodeRecord


@dataclass(frozen=True, slots=True)
class Token:
    """One position of the row.

    Attributes:
        text: None where the model server was not asked for it.
        logprob: at sampling time; None where it was not sampled.
        teacher: the teacher's value of the sampled id; None where it was not scored.
        advantage: teacher minus logprob, as float32; None where it was not scored.
        version: of the weights; None where it was not sampled, empty where they have no name.
    """

    position: int
    id: int
    text: str | None
    sampled: bool
    logprob: float | None
    teacher: float | None
    advantage: float | None
    version: str | None

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Turn:
    """The tokens inserted before a turn and sampled in it, and what distillation says of it."""

    number: int
    tokens: tuple[Token, ...]
    outcome: str | None
    hint: str | None
    message: str

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return {
            "kind": "turn",
            "turn": self.number,
            "outcome": self.outcome,
            "hint": self.hint,
            "message": self.message,
            "tokens": [token.to_json() for token in self.tokens],
        }


def head(record: EpisodeRecord) -> dict[str, Any]:
    """What is said of the Episode as a whole, in the words of the API."""
    spec = record.result.spec.to_api()
    left_out = ("tokens", "messages", "artifacts", "verifierOutput")
    distillation = record.result.status.distillation
    said = None if distillation is None else distillation.to_api()
    for blob in ("data", "turns"):
        if said is not None:
            said.pop(blob, None)
    return {
        "kind": "episode",
        "result": record.result.metadata["name"],
        "namespace": record.result.metadata["namespace"],
        **{name: value for name, value in spec.items() if name not in left_out},
        "weightVersions": dict(Counter(sampled_versions(record))),
        "distillation": said,
    }


def sampled_versions(record: EpisodeRecord) -> list[str]:
    """The version of the weights of each sampled position."""
    if record.row is None or record.versions is None:
        return []
    found: list[str] = record.versions[record.row.mask].tolist()
    return found


def turns(record: EpisodeRecord, texts: Mapping[int, str] | None) -> Iterator[Turn]:
    """The turns in their order; none for agents that sample nothing."""
    if record.row is None:
        return
    tokens = _tokens(record, texts)
    said = {entry.turn: entry for entry in record.turns or []}
    for number in np.unique(record.row.turn).tolist():
        entry = said.get(number)
        yield Turn(
            number=number,
            tokens=tuple(tokens[at] for at in np.flatnonzero(record.row.turn == number)),
            outcome=None if entry is None else entry.outcome,
            hint=None if entry is None else entry.hint,
            message="" if entry is None else entry.message,
        )


def _tokens(record: EpisodeRecord, texts: Mapping[int, str] | None) -> list[Token]:
    row, versions = record.row, record.versions
    assert row is not None and versions is not None  # a record has both or none
    teacher, advantage = {}, {}
    if record.distillation is not None:
        positions = record.distillation.positions.tolist()
        teacher = dict(zip(positions, record.distillation.sampled_logprobs.tolist(), strict=True))
        advantages = record.distillation.advantages(row).tolist()
        advantage = dict(zip(positions, advantages, strict=True))
    return [
        Token(
            position=at,
            id=token_id,
            text=None if texts is None else texts.get(token_id),
            sampled=sampled,
            logprob=logprob if sampled else None,
            teacher=teacher.get(at),
            advantage=advantage.get(at),
            version=str(version) if sampled else None,
        )
        for at, (token_id, sampled, logprob, version) in enumerate(
            zip(
                row.tokens.tolist(),
                row.mask.tolist(),
                row.logprobs.tolist(),
                versions.tolist(),
                strict=True,
            )
        )
    ]
