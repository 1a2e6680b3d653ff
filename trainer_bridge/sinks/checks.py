"""What is looked at in a group before anything of it is sent anywhere."""

from collections.abc import Mapping
from enum import StrEnum
from math import isfinite
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from episode_operator.results.arrays import PayloadError
from episode_operator.results.record import EpisodeRecord
from trainer_bridge.sinks.base import RefusedError
from trainer_bridge.training import TrainingGroup


class Refusal(StrEnum):
    """Why a group is never sent."""

    WRONG_SIZE = "WrongSize"
    DOUBLED = "Doubled"
    NO_REWARD = "NoReward"
    NO_TOKENS = "NoTokens"
    NO_MODEL = "NoModel"
    MIXED_MODELS = "MixedModels"
    NON_FINITE = "NonFinite"
    MALFORMED = "Malformed"
    TOO_LONG = "TooLong"
    BAD_MESSAGES = "BadMessages"
    REJECTED = "Rejected"
    """The trainer's server said so."""


def refuse(reason: Refusal, group: TrainingGroup, message: str) -> RefusedError:
    """The error; its text begins with the name of the group."""
    return RefusedError(reason, f"{group.name}: {message}")


def check_group(group: TrainingGroup, *, size: int) -> None:
    """Every length, shape, type, range and value; and that the members are what they should be.

    Raises:
        RefusedError: WrongSize, Doubled, NoReward, NoTokens, NonFinite or Malformed; the text
            names the member, the array and the position.
    """
    if len(group.members) != size:
        raise refuse(Refusal.WRONG_SIZE, group, f"{len(group.members)} members, {size} expected")
    check_distinct(group)
    for record in group.members:
        _check_record(group, record)


def check_distinct(group: TrainingGroup) -> None:
    """No Episode is a member twice.

    Raises:
        RefusedError: Doubled.
    """
    size, uids = len(group.members), {each.result.spec.episode.uid for each in group.members}
    if len(uids) != size:
        raise refuse(Refusal.DOUBLED, group, f"{size} members of only {len(uids)} Episodes")


def check_parts(record: EpisodeRecord) -> None:
    """Every array is right by itself, and fits to the others.

    Raises:
        PayloadError: one is, or does, not.
    """
    if record.row is not None:
        record.row.check()
    if record.distillation is not None:
        record.distillation.check(record.row)
    record.check()


def check_lengths(group: TrainingGroup, *, limit: int) -> None:
    """Every row has fewer than `limit` tokens.

    Raises:
        RefusedError: TooLong.
    """
    for record in group.members:
        if record.row is not None and record.row.tokens.size >= limit:
            raise refuse(
                Refusal.TOO_LONG,
                group,
                f"{_name(record)}: {record.row.tokens.size} tokens; fewer than {limit} are taken",
            )


def check_models(group: TrainingGroup) -> None:
    """All members were sampled from one model in one way; only their seeds may differ.

    Raises:
        RefusedError: NoModel or MixedModels.
    """
    ways = set()
    for record in group.members:
        model = record.result.spec.model
        if model is None:
            raise refuse(Refusal.NO_MODEL, group, f"{_name(record)}: no model is named")
        ways.add(model.model_dump_json(exclude={"sampling": {"seed"}}))
    if len(ways) > 1:
        raise refuse(Refusal.MIXED_MODELS, group, f"sampled in {len(ways)} ways: {sorted(ways)}")


def check_messages(group: TrainingGroup) -> None:
    """Every member has messages with a role and a text, all of it valid as JSON.

    Raises:
        RefusedError: BadMessages.
    """
    for record in group.members:
        if not record.messages:
            raise refuse(Refusal.BAD_MESSAGES, group, f"{_name(record)}: no messages")
        for index, message in enumerate(record.messages):
            for key in ("role", "content"):
                if not isinstance(message.get(key), str):
                    found = f"message {index} has {key} {message.get(key)!r}, not a text"
                    raise refuse(Refusal.BAD_MESSAGES, group, f"{_name(record)}: {found}")
            try:
                orjson.dumps(message)
            except orjson.JSONEncodeError as error:  # above all a lone surrogate
                text = f"{_name(record)}: message {index}: {error}"
                raise refuse(Refusal.BAD_MESSAGES, group, text) from error


def _check_record(group: TrainingGroup, record: EpisodeRecord) -> None:
    name, row, reward = _name(record), record.row, record.reward
    if reward is None:
        raise refuse(Refusal.NO_REWARD, group, f"{name}: no reward, as there is no verdict")
    if not isfinite(reward):
        raise refuse(Refusal.NON_FINITE, group, f"{name}: reward {reward}")
    if row is None or not row.mask.any():
        raise refuse(Refusal.NO_TOKENS, group, f"{name}: no sampled tokens")
    _check_finite(group, name, row.arrays())
    if record.distillation is not None:
        _check_finite(group, f"{name}: distillation", record.distillation.arrays())
    try:
        check_parts(record)
    except PayloadError as error:
        raise refuse(Refusal.MALFORMED, group, f"{name}: {error}") from error


def _check_finite(group: TrainingGroup, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    for array_name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            place = ", ".join(str(int(at)) for at in np.argwhere(~np.isfinite(array))[0])
            text = f"{name}: {array_name}: {array[~np.isfinite(array)][0]} at {place}"
            raise refuse(Refusal.NON_FINITE, group, text)


def _name(record: EpisodeRecord) -> str:
    return record.result.spec.episode.name
