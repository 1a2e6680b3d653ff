"""What distillation made of each turn, as compressed JSON: a list of TurnRecord."""

from collections.abc import Sequence
from typing import Final, Literal

import orjson
from pydantic import Field, TypeAdapter, ValidationError

from episode_operator.api.base import ApiModel
from episode_operator.api.distillation import TurnOutcome
from episode_operator.results.compression import CompressionError, compress, decompress

ENCODING: Final = "json+zstd"


class TurnsError(ValueError):
    """Bytes that are not records of turns."""


class VoteRecord(ApiModel):
    """One judgement of a turn."""

    decision: Literal["Yes", "No", "Failed"] = Field(description="What it came to.")
    hint: str | None = Field(default=None, description="The hint of a Yes.")
    error: str | None = Field(default=None, description="Why it Failed.")


class TurnRecord(ApiModel):
    """One turn of the model."""

    turn: int = Field(description="Number of the turn, from 0.", ge=0)
    outcome: TurnOutcome = Field(description="Why it was, or was not, scored.")
    message: str = Field(default="", description="Details.")
    hint: str | None = Field(default=None, description="What the teacher was told.")
    votes: list[VoteRecord] = Field(default=[], description="The judge's votes.")
    teacher_tokens: int = Field(default=0, description="Tokens sent to the teacher.", ge=0)
    weights: str | None = Field(
        default=None, description="Label of the weights that scored it, where the server tells."
    )
    start: int = Field(description="First row position that the turn sampled.", ge=0)
    end: int = Field(description="Position after its last.", ge=0)


_RECORDS = TypeAdapter(list[TurnRecord])


def encode(records: Sequence[TurnRecord]) -> bytes:
    """Encode the records; deterministic."""
    return compress(
        orjson.dumps([record.to_api() for record in records], option=orjson.OPT_SORT_KEYS)
    )


def decode(data: bytes) -> list[TurnRecord]:
    """Decode what `encode` gave.

    Raises:
        TurnsError: the bytes are no records.
    """
    try:
        return _RECORDS.validate_json(decompress(data))
    except (CompressionError, ValidationError) as error:
        raise TurnsError(f"no records of turns: {error}") from error
