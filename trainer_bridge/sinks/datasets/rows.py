"""The rows of a group."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from episode_operator.results import neutral
from episode_operator.results.arrays import PayloadError
from episode_operator.results.distillation import Distillation
from episode_operator.results.payload import TokenRow
from episode_operator.results.record import EpisodeRecord
from trainer_bridge.sinks.base import RefusedError
from trainer_bridge.sinks.datasets.columns import COLUMNS
from trainer_bridge.sinks.datasets.settings import DatasetSettings
from trainer_bridge.sinks.records import messages
from trainer_bridge.training import TrainingGroup

NOT_FILLABLE: Final = "NotFillable"

Row = dict[str, Any]


def rows(group: TrainingGroup, settings: DatasetSettings) -> list[Row]:
    """One row for each member, in their order, with every column of COLUMNS.

    Raises:
        RefusedError: BadMessages: the columns have no place for something in one. NotFillable:
            neutral_fill lacks the student's values at a position.
    """
    told = {"group": group.name, "task": group.task, "family": group.family}
    chosen = settings.model_dump(
        include={"include_messages", "include_distillation", "neutral_fill"}
    )
    return [row(record, **chosen) | told for record in group.members]


def row(
    record: EpisodeRecord,
    *,
    include_messages: bool = True,
    include_distillation: bool = True,
    neutral_fill: bool = False,
) -> Row:
    """One Episode by itself: task and family are None, as a result does not tell them.

    The choices are those of DatasetSettings.

    Raises:
        RefusedError: as `rows`.
    """
    found = dict.fromkeys(COLUMNS)
    found |= _outcome(record)
    if record.row is not None:
        found |= _tokens(record, record.row)
        if include_distillation and record.distillation is not None:
            values = record.distillation
            if neutral_fill:
                values = filled(record, record.row, values)
            found |= _distillation(record.row, values)
    if include_messages:
        found["messages"] = messages(record)
    return found


def _outcome(record: EpisodeRecord) -> Row:
    spec = record.result.spec
    found: Row = {
        "episode": spec.episode.name,
        "uid": spec.episode.uid,
        "group": None if spec.group is None else spec.group.name,
        "member": None if spec.group is None else spec.group.member,
        "verdict": str(spec.verdict),
        "reason": spec.reason,
        "reward": spec.reward,
        "reward_components": [
            {"name": name, "value": value} for name, value in spec.reward_components.items()
        ],
        "harness": spec.harness,
        "agent_kind": str(spec.agent_kind),
        "agent_end": spec.agent_end,
        "turns": spec.counts.turns,
        "tool_calls": spec.counts.tool_calls,
        "tool_errors": spec.counts.tool_errors,
        "image": spec.image,
        "started_at": spec.started_at,
        "finished_at": spec.finished_at,
    }
    if spec.model is not None:
        found["model"] = spec.model.name
        found["logprobs_mode"] = spec.model.logprobs_mode
        found["temperature"] = spec.model.sampling.temperature
    return found


def _tokens(record: EpisodeRecord, row: TokenRow) -> Row:
    found: Row = {
        "tokens": row.tokens.tolist(),
        "mask": row.mask.tolist(),
        "logprobs": row.logprobs.tolist(),
        "turn": row.turn.tolist(),
        "weight_versions": [span.model_dump() for span in record.result.spec.weight_versions],
    }
    counts, ids, values = (
        row.student_topk_counts,
        row.student_topk_token_ids,
        row.student_topk_logprobs,
    )
    if counts is not None and ids is not None and values is not None:
        found["student_topk_token_ids"] = _split(ids, counts)
        found["student_topk_logprobs"] = _split(values, counts)
    return found


def filled(record: EpisodeRecord, row: TokenRow, values: Distillation) -> Distillation:
    """The values at all sampled positions.

    Raises:
        RefusedError: NotFillable.
    """
    try:
        return neutral.filled(values, row)
    except PayloadError as error:
        name = record.result.spec.episode.name
        raise RefusedError(NOT_FILLABLE, f"Episode {name}: {error}") from error


def _distillation(row: TokenRow, values: Distillation) -> Row:
    found: Row = {
        "distill_positions": values.positions.tolist(),
        "distill_token_ids": values.token_ids.tolist(),
        "distill_logprobs": values.logprobs.tolist(),
        "distill_sampled_logprobs": values.sampled_logprobs.tolist(),
    }
    if values.student_topk_logprobs is not None and row.student_topk_counts is not None:
        index = np.searchsorted(np.flatnonzero(row.mask), values.positions)
        found["distill_student_topk_logprobs"] = _split(
            values.student_topk_logprobs, row.student_topk_counts[index]
        )
    return found


def _split(flat: NDArray[Any], counts: NDArray[np.int16]) -> list[list[Any]]:
    """The values of each position, from those of all."""
    ends = np.cumsum(counts, dtype=np.int64)
    return [flat[end - count : end].tolist() for end, count in zip(ends, counts, strict=True)]
