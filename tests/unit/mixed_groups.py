"""A group of all that members can be, for what writes them to files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from episode_operator.api.agent import AgentKind
from episode_operator.api.episode import Group
from episode_operator.api.reasons import Verdict
from episode_operator.api.result import (
    Counts,
    DistillationStatus,
    EpisodeReference,
    EpisodeResult,
    EpisodeResultStatus,
)
from episode_operator.results.distillation import Distillation
from episode_operator.results.payload import TokenRow
from episode_operator.results.record import EpisodeRecord
from tests.unit import records
from trainer_bridge.sinks.datasets import DatasetSettings, DatasetSink
from trainer_bridge.training import TrainingGroup

Kind = Literal["parquet", "jsonl"]
KINDS: tuple[Kind, ...] = get_args(Kind)
HOSTILE = "</pre><script>alert('x')</script>&amp; \u2028\u0000 雪 \"quoted\"\n\nend"
TOOL_CALLS: list[dict[str, Any]] = [
    {"role": "system", "content": ""},
    {"role": "user", "content": HOSTILE},
    {
        "role": "assistant",
        "content": "",
        "reasoning": "<img src=x onerror=alert(1)>",
        "tool_calls": [
            {
                "id": f"call_0_{number}",
                "type": "function",
                "function": {"name": "terminal", "arguments": json.dumps({"command": command})},
            }
            for number, command in enumerate(["ls", "echo '雪'"])
        ],
    },
    {"role": "tool", "tool_call_id": "call_0_0", "name": "terminal", "content": "2026-11-30"},
    {"role": "tool", "tool_call_id": "call_0_1", "name": "terminal", "content": HOSTILE},
    {"role": "assistant", "content": "done"},
]
EXACT = np.array([0, 0, -1.2345678e-12, -0.1, 0, -17.3], dtype=np.float32)


def topk_row() -> TokenRow:
    """The row of records.row with the student's most likely tokens, some positions with fewer."""
    return replace(
        records.row(),
        student_topk_counts=np.array([2, 2, 3], dtype=np.int16),
        student_topk_token_ids=np.array([12, 30, 13, 31, 15, 32, 33], dtype=np.int32),
        student_topk_logprobs=np.array([-0.5, -3, -2, -2.5, -0.25, -4, -5], dtype=np.float32),
    )


def record(
    name: str,
    member: int,
    *,
    group: str,
    messages: list[dict[str, Any]] | None,
    row: TokenRow | None = None,
    distillation: Distillation | None = None,
    **changes: Any,
) -> EpisodeRecord:
    """A record whose parts fit to each other."""
    if row is None:
        changes = {"model": None, "weight_versions": [], "agent_kind": AgentKind.ORACLE, **changes}
    counts = Counts(
        turns=2,
        tool_calls=2,
        tool_errors=1,
        tokens=0 if row is None else row.tokens.size,
        sampled_tokens=0 if row is None else int(row.mask.sum()),
    )
    told = DistillationStatus(
        state="Completed",
        positions=0 if distillation is None else distillation.positions.size,
        completed_at="2026-11-30T12:00:00Z",
    )
    spec = records.result_spec(
        episode=EpisodeReference(name=name, uid=f"uid-of-{name}"),
        group=Group(name=group, member=member),
        counts=counts,
        **changes,
    )
    return EpisodeRecord(
        result=EpisodeResult(
            metadata={"name": f"{name}-0f5e2f8e"},
            spec=spec,
            status=EpisodeResultStatus(distillation=told),
        ),
        messages=messages,
        row=row,
        distillation=distillation,
    )


def mixed(name: str = "run-0") -> TrainingGroup:
    """A group of all there can be; the first has only nulls where a later one has values."""
    taught = replace(
        records.taught(), student_topk_logprobs=np.array([-1, -2, -3, -4], dtype=np.float32)
    )
    members = (
        record(f"{name}-0", 0, group=name, messages=None, reward_components={}, agent_end=None),
        record(
            f"{name}-1",
            1,
            group=name,
            messages=TOOL_CALLS,
            row=replace(records.row(), logprobs=EXACT),
            reward=0.1 + 0.2,
            reward_components={"correctness": 1 / 3, "tool use": 0.6},
        ),
        record(
            f"{name}-2",
            2,
            group=name,
            messages=records.CONVERSATION,
            row=topk_row(),
            distillation=taught,
            verdict=Verdict.FAILED,
            reward=0.0,
        ),
        record(
            f"{name}-3",
            3,
            group=name,
            messages=[],
            row=records.row(),
            distillation=records.taught(),
            weight_versions=[],
        ),
    )
    return TrainingGroup(name=name, task="snow", family="雪", step=None, members=members)


def settings(folder: Path, kind: Kind, **changes: Any) -> DatasetSettings:
    return DatasetSettings(kind=kind, folder=folder, **changes)


async def written(folder: Path, kind: Kind, *groups: TrainingGroup, **changes: Any) -> DatasetSink:
    """A sink that was sent the groups."""
    sink = DatasetSink(settings(folder, kind, **changes))
    await sink.open()
    for group in groups:
        sink.check(group)
        await sink.send(group)
    return sink
