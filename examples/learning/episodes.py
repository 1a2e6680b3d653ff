"""What the training Episodes of a run tell: verdicts, who sampled their tokens, where time went."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from episode_operator.api.result import Delivery
from episode_operator.kube.client import EPISODE_RESULTS, KubernetesClient
from episode_operator.results.record import EpisodeRecord
from examples.learning.plan import NAMESPACE, Plan
from trainer_bridge.run.names import labels

Json = dict[str, Any]

_LABEL = re.compile(r"step-(\d+)")
"""The trainer names the weights after its steps; those of a server that was restarted are not its
own before its next push, and have another name."""


async def told(plan: Plan, client: KubernetesClient) -> Json:
    """What the EpisodeResults of the run tell, without those of evaluations."""
    found = await client.list(
        EPISODE_RESULTS, NAMESPACE, labels=labels(plan.name), metadata_only=True
    )
    names = [one["metadata"]["name"] for one in found if "-eval-" not in one["metadata"]["name"]]
    records = [await EpisodeRecord.load(client, namespace=NAMESPACE, name=name) for name in names]
    verdicts = Counter(str(record.verdict) for record in records)
    seconds: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for record in records:
        seconds.update(_seconds(record))
        for span in record.result.spec.weight_versions:
            tokens[span.version] += span.end - span.start
    return {
        "verdicts": dict(verdicts),
        "tokens_by_weight_version": dict(tokens.most_common()),
        "with_several_weight_versions": sum(map(_has_several_versions, records)),
        "turns_continued_across_a_push": sum(map(_turns_continued, records)),
        "seconds": dict(seconds),
        "batches": [_batch(step, rows) for step, rows in enumerate(_batches(plan, records))],
    }


def _batches(plan: Plan, records: Iterable[EpisodeRecord]) -> Iterator[Sequence[EpisodeRecord]]:
    """The rows of each step: Atropos hands groups out in the order in which it got them."""
    delivered = [one for one in records if one.result.status.delivery is Delivery.DELIVERED]
    delivered.sort(key=lambda one: (one.result.status.delivery_time, one.result.spec.episode.name))
    for start in range(0, len(delivered), plan.batch_size):
        yield delivered[start : start + plan.batch_size]


def _batch(step: int, rows: Sequence[EpisodeRecord]) -> Json:
    """Turns of a row, and by how many steps the weights that sampled a token were behind."""
    spans = [span for row in rows for span in row.result.spec.weight_versions]
    behind = [
        np.full(span.end - span.start, step - int(label[1]))
        for span in spans
        if (label := _LABEL.fullmatch(span.version))
    ]
    return {
        "turns": float(np.mean([row.counts.turns for row in rows])),
        "staleness": _told(np.concatenate(behind)) if behind else None,
    }


def _told(behind: NDArray[np.int64]) -> Json:
    return {"mean": float(behind.mean()), "max": int(behind.max())}


def _has_several_versions(record: EpisodeRecord) -> bool:
    return len({span.version for span in record.result.spec.weight_versions}) > 1


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
