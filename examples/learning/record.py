"""What came of a run, as one JSON object: from the trainer's lines, the bridge's evaluations and
state, and the EpisodeResults."""

import json
import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from episode_operator.kube.client import EPISODE_RESULTS, KubernetesClient
from episode_operator.results.record import EpisodeRecord
from examples.learning.plan import NAMESPACE, Plan
from examples.learning.run import Json, after, evaluations, steps
from trainer_bridge.run.names import labels
from trainer_bridge.run.state import StateStore
from trainer_bridge.statistics.evaluation import EvaluationReport

FILE = "record.json"


async def made(plan: Plan, client: KubernetesClient) -> Json:
    """The record of a run that has ended."""
    taken = steps(plan)
    ended = after(plan)
    assert ended is not None
    sessions = [json.loads(line) for line in (plan.output / "sessions.jsonl").open()]
    state = await StateStore(client, namespace=NAMESPACE, run=plan.name).load()
    assert state is not None
    evaluated = {**evaluations(plan), plan.steps: ended}
    return {
        "plan": {**asdict(plan), "output": plan.output.name},
        "machine": {"processors": os.cpu_count(), "system": platform.release()},
        "before": _pass_rate(evaluated[0]),
        "after": _pass_rate(ended),
        "evaluations": {
            step: {"pass_rate": _pass_rate(report), "families": families(report)}
            for step, report in sorted(evaluated.items())
        },
        "training_seconds": sum(one["ended"] - one["started"] for one in sessions),
        "sessions": len(sessions),
        "ratio_ok_at_first_step": taken[0]["ratio_ok"],
        "groups": {
            "delivered": state.delivered,
            "dropped": state.dropped,
            "reruns": state.no_verdict,
        },
        "cpu_seconds": _summed(one["cpu_seconds"] for one in sessions),
        "episodes": await _episodes(plan, client),
        "steps": taken,
    }


def families(report: EvaluationReport) -> dict[str, float]:
    """Pass rate of an evaluation by family of tasks."""
    parts = ((name.split("/"), value) for name, value in report.values.items())
    return {path[1]: value for path, value in parts if len(path) == 3 and path[2] == "pass_rate"}


def _pass_rate(report: EvaluationReport) -> float:
    return report.values["eval/pass_rate"]


async def _episodes(plan: Plan, client: KubernetesClient) -> Json:
    """Of the training Episodes: verdicts, who sampled their tokens, and where their time went."""
    found = await client.list(
        EPISODE_RESULTS, NAMESPACE, labels=labels(plan.name), metadata_only=True
    )
    names = [one["metadata"]["name"] for one in found if "-eval-" not in one["metadata"]["name"]]
    verdicts: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    continued = across = 0
    for name in names:
        record = await EpisodeRecord.load(client, namespace=NAMESPACE, name=name)
        spec = record.result.spec
        verdicts[spec.verdict] += 1
        seconds.update(_seconds(record))
        for span in spec.weight_versions:
            tokens[span.version] += span.end - span.start
        across += len({span.version for span in spec.weight_versions}) > 1
        continued += _turns_continued(record)
    return {
        "verdicts": dict(verdicts),
        "tokens_by_weight_version": dict(sorted(tokens.items(), key=_version)),
        "with_several_weight_versions": across,
        "turns_continued_across_a_push": continued,
        "seconds": dict(seconds),
    }


def _version(item: tuple[str, int]) -> tuple[int, str]:
    _, _, number = item[0].rpartition("-")
    return (int(number) if number.isdigit() else -1, item[0])


def _turns_continued(record: EpisodeRecord) -> int:
    """Turns whose tokens were sampled by more than one version of the weights."""
    row, versions = record.row, record.versions
    if row is None or versions is None:
        return 0
    turns = np.unique(row.turn[row.mask])
    return sum(len(np.unique(versions[row.mask & (row.turn == turn)])) > 1 for turn in turns)


def _seconds(record: EpisodeRecord) -> dict[str, float]:
    """Where the time of an Episode went, until its verdict; the rest is the operator's own."""
    spec = record.result.spec
    timings = spec.timings
    parts = {
        "sandbox start": timings.sandbox_start_seconds,
        "setup": timings.setup_seconds,
        "model": timings.model_seconds,
        "tools": timings.tool_seconds,
        "verifier": timings.verifier_seconds,
    }
    whole = (spec.finished_at - spec.started_at).total_seconds()
    return {**parts, "operator": whole - sum(parts.values())}


def _summed(several: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for one in several:
        total.update(one)
    return dict(total)


def shares(values: Mapping[str, Any]) -> dict[str, float]:
    """Each value as a share of all of them."""
    whole = sum(values.values())
    return {name: value / whole for name, value in values.items()}
