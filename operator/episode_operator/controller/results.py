"""Puts the spec of an EpisodeResult together from the outcome of the last attempt."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from episode_operator.agent.report import AgentReport
from episode_operator.api.episode import Episode
from episode_operator.api.reasons import NoVerdictReason, Verdict
from episode_operator.api.result import (
    Counts,
    EpisodeReference,
    EpisodeResultSpec,
    StepResult,
    Timings,
)
from episode_operator.controller.artifacts import Artifacts
from episode_operator.controller.status import clip
from episode_operator.lifecycle.outcome import Failure, Outcome, Scored
from episode_operator.results.arrays import PayloadError
from episode_operator.results.payload import TokenRow

_OUTPUT_MAX = 16_000


@dataclass(slots=True)
class AttemptReport:
    """What an attempt gathered, as far as it got; times in seconds."""

    pod_uid: str
    image: str
    sandbox_start_seconds: float = 0.0
    setup_seconds: float = 0.0
    agent_seconds: float = 0.0
    verifier_seconds: float = 0.0
    verifier_output: str = ""
    agent: AgentReport | None = None
    steps: list[StepResult] = field(default_factory=list)
    artifacts: Artifacts = field(default_factory=Artifacts)


def _counts(agent: AgentReport | None) -> Counts:
    if agent is None:
        return Counts()
    progress = agent.progress
    return Counts(
        turns=progress.turns,
        tool_calls=progress.tool_calls,
        tool_errors=progress.tool_errors,
        malformed_calls=progress.malformed_calls.total(),
        malformed_calls_by_kind={
            kind.value: count for kind, count in progress.malformed_calls.items() if count
        },
        tokens=0 if agent.row is None else len(agent.row.tokens),
        sampled_tokens=0 if agent.row is None else int(agent.row.mask.sum()),
    )


def _timings(report: AttemptReport) -> Timings:
    progress = report.agent.progress if report.agent else None
    return Timings(
        sandbox_start_seconds=round(report.sandbox_start_seconds, 3),
        setup_seconds=round(report.setup_seconds, 3),
        agent_seconds=round(report.agent_seconds, 3),
        model_seconds=round(progress.model_seconds, 3) if progress else 0,
        tool_seconds=round(progress.tool_seconds, 3) if progress else 0,
        verifier_seconds=round(report.verifier_seconds, 3),
    )


def spec(episode: Episode, outcome: Outcome, now: datetime) -> EpisodeResultSpec:
    """The spec without its blobs, which the writer adds."""
    report: AttemptReport | None = outcome.report
    agent = report.agent if report else None
    end = outcome.end
    scored = isinstance(end, Scored)
    return EpisodeResultSpec(
        episode=EpisodeReference(name=episode.name, uid=episode.uid),
        group=episode.spec.group,
        verdict=end.verdict if isinstance(end, Scored) else Verdict.NO_VERDICT,
        reason=end.reason,
        message=clip(end.message),
        reward=end.reward if isinstance(end, Scored) else None,
        reward_components=end.components if isinstance(end, Scored) else {},
        harness=episode.spec.plan[-1].verifier.contract,
        steps=report.steps if report else [],
        agent_kind=episode.spec.agent.kind,
        agent_end=agent.end if agent else None,
        image=report.image if report else episode.spec.task.image,
        model=agent.model if agent else None,
        counts=_counts(agent),
        timings=_timings(report) if report else Timings(),
        weight_versions=agent.weight_versions if agent else [],
        artifacts_missing=report.artifacts.missing if report else {},
        verifier_output=report.verifier_output[-_OUTPUT_MAX:] if report else "",
        pod_uid=report.pod_uid if report and scored else episode.status.pod_uid,
        started_at=episode.status.start_time or episode.created,
        finished_at=now,
    )


def row(outcome: Outcome) -> TokenRow | None:
    """The training row; None for agents that sample nothing."""
    report: AttemptReport | None = outcome.report
    if report is None or report.agent is None or report.agent.row is None:
        return None
    sampled, top = report.agent.row, report.agent.row.top
    return TokenRow(
        tokens=sampled.tokens,
        mask=sampled.mask,
        logprobs=sampled.logprobs,
        turn=sampled.turn,
        student_topk_counts=None if top is None else top.counts,
        student_topk_token_ids=None if top is None else top.token_ids,
        student_topk_logprobs=None if top is None else top.logprobs,
    )


def without_row(outcome: Outcome, error: PayloadError) -> Outcome:
    """The end of an attempt whose row was refused: what the model server gave it does not fit."""
    report: AttemptReport = outcome.report
    assert report.agent is not None  # the row came from there
    agent = replace(report.agent, row=None, weight_versions=[])
    message = f"the turns' values do not fit together: {error}; else it was {outcome.end.reason}"
    failure = Failure(NoVerdictReason.MODEL_BAD_RESPONSE, message)
    return Outcome(failure, replace(report, agent=agent))


def conversation(outcome: Outcome) -> list[dict[str, Any]] | None:
    """The messages; None when there was no agent yet."""
    report: AttemptReport | None = outcome.report
    return report.agent.messages if report and report.agent else None


def artifacts(outcome: Outcome) -> bytes | None:
    """What was kept, as a gzipped tar."""
    report: AttemptReport | None = outcome.report
    return report.artifacts.archive if report else None
