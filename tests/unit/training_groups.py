"""Finished Episodes and groups of them, as the bridge has them in memory."""

from typing import Any

from episode_operator.api.reasons import Verdict
from episode_operator.api.result import DistillationStatus, EpisodeResult, EpisodeResultStatus
from episode_operator.results.distillation import Distillation
from episode_operator.results.payload import TokenRow
from episode_operator.results.record import EpisodeRecord, versions
from tests.unit import records
from trainer_bridge.training import TrainingGroup


def record(
    *,
    row: TokenRow | None = None,
    messages: list[dict[str, Any]] | None = None,
    distillation: DistillationStatus | None = None,
    values: Distillation | None = None,
    **spec: Any,
) -> EpisodeRecord:
    """A record of two turns that passed, with fields of the result's spec replaced."""
    result = EpisodeResult(
        metadata={"name": "hello"},
        spec=records.result_spec(**spec),
        status=EpisodeResultStatus(distillation=distillation),
    )
    tokens = row or records.row()
    return EpisodeRecord(
        result=result,
        messages=messages or records.CONVERSATION,
        row=tokens,
        versions=versions(tokens, result.spec.weight_versions),
        distillation=values,
    )


def failed(**spec: Any) -> EpisodeRecord:
    """A record that failed its tests."""
    return record(**{"verdict": Verdict.FAILED, "reason": "TestsFailed", "reward": 0.0, **spec})


def without_verdict(**spec: Any) -> EpisodeRecord:
    """A record of an Episode whose pod was lost."""
    lost = {"verdict": Verdict.NO_VERDICT, "reason": "PodLost", "reward": None}
    return record(**{**lost, "reward_components": {}, "agent_end": None, **spec})


def group(*members: EpisodeRecord, step: int | None = None) -> TrainingGroup:
    """A group of these members."""
    return TrainingGroup(name="run-0", task="count", family="", step=step, members=members)
