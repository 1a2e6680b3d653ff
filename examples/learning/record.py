"""What came of a run, as one JSON object: from the trainer's lines, the bridge's evaluations and
state, and the EpisodeResults."""

import json
import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from episode_operator.kube.client import KubernetesClient
from examples.learning import episodes
from examples.learning.plan import NAMESPACE, Plan
from examples.learning.run import Json, after, evaluations, steps
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
    used = _summed(one["cpu_seconds"] for one in sessions)
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
        "cpu_seconds": used,
        "cpu_shares": shares(used),
        "episodes": await episodes.told(plan, client),
        "steps": taken,
    }


def families(report: EvaluationReport) -> dict[str, float]:
    """Pass rate of an evaluation by family of tasks."""
    parts = ((name.split("/"), value) for name, value in report.values.items())
    return {path[1]: value for path, value in parts if len(path) == 3 and path[2] == "pass_rate"}


def _pass_rate(report: EvaluationReport) -> float:
    return report.values["eval/pass_rate"]


def _summed(several: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for one in several:
        total.update(one)
    return dict(total)


def shares(values: Mapping[str, Any]) -> dict[str, float]:
    """Each value as a share of all of them."""
    whole = sum(values.values())
    return {name: value / whole for name, value in values.items()}
