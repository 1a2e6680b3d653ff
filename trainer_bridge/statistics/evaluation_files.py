"""Keeps an evaluation as a folder with `metrics.json` and `samples.jsonl`, as Atropos does."""

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from episode_operator.results.record import EpisodeRecord
from trainer_bridge.statistics.evaluation import EvaluatedTask, EvaluationReport

METRICS: Final = "metrics.json"
SAMPLES: Final = "samples.jsonl"


class EvaluationExistsError(Exception):
    """The folder is there already: an evaluation is written once, and never replaced."""


class EvaluationUnreadableError(Exception):
    """The folder holds something else."""


@dataclass(frozen=True, slots=True)
class EvaluationDetails:
    """What the files tell beside the scores.

    Attributes:
        name: name of the evaluation, in `results` of metrics.json.
        model: name of the model.
        generation_parameters: sampling parameters, by the model server's names.
        started_at, finished_at: when it was under way.
    """

    name: str
    model: str
    generation_parameters: Mapping[str, Any]
    started_at: datetime
    finished_at: datetime


def write(
    folder: Path,
    report: EvaluationReport,
    tasks: Sequence[EvaluatedTask],
    details: EvaluationDetails,
) -> None:
    """Write both files into a new folder, which appears with both of them, complete, or not at all.

    metrics.json has the form of Atropos (`config_general`, `results`) and the report beside it;
    samples.jsonl has one line for each Episode, those without a verdict too, with reward null.

    Raises:
        EvaluationExistsError: the folder exists.
        OSError: it cannot be written.
    """
    if folder.exists():
        raise EvaluationExistsError(
            f"{folder} exists; choose another folder, or delete it to evaluate again"
        )
    partial = folder.parent / f".{folder.name}.{uuid4().hex}"
    partial.mkdir(parents=True)
    try:
        metrics = json.dumps(_metrics(report, details), indent=2, allow_nan=False)
        _write(partial / METRICS, [metrics])
        samples = (_sample(task, record) for task in tasks for record in task.records)
        _write(partial / SAMPLES, (json.dumps(sample, allow_nan=False) for sample in samples))
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial)
        raise


def read(folder: Path) -> EvaluationReport | None:
    """The report of an evaluation that was written; None where there is no such folder.

    Raises:
        EvaluationUnreadableError: the folder is not of an evaluation that `write` wrote.
    """
    if not folder.exists():
        return None
    try:
        return EvaluationReport.from_json(json.loads((folder / METRICS).read_text())["report"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvaluationUnreadableError(
            f"{folder} is no evaluation of the bridge ({error!r}); choose another folder, or move "
            "it away"
        ) from error


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())


def _metrics(report: EvaluationReport, details: EvaluationDetails) -> dict[str, Any]:
    seconds = (details.finished_at - details.started_at).total_seconds()
    return {
        "config_general": {
            "model_name": details.model,
            "total_evaluation_time_seconds": str(seconds),
            "generation_parameters": dict(details.generation_parameters),
        },
        "results": {f"atropos|{details.name}|0": report.values, "all": report.values},
        "report": report.to_json(),
    }


def _sample(task: EvaluatedTask, record: EpisodeRecord) -> dict[str, Any]:
    spec = record.result.spec
    return {
        "task": task.name,
        "family": task.family,
        "episode": spec.episode.name,
        "verdict": spec.verdict,
        "reason": spec.reason,
        "reward": spec.reward,
        "reward_components": spec.reward_components,
        "turns": spec.counts.turns,
        "agent_end": spec.agent_end,
        "messages": record.messages,
    }
