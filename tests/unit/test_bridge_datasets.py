"""Datasets: what `datasets` reads back is what was recorded, position by position."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets  # type: ignore[import-untyped]
import numpy as np
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
from datasets import load_dataset
from pydantic import ValidationError

from episode_operator.results.record import EpisodeRecord
from tests.unit import records
from tests.unit.mixed_groups import EXACT, KINDS, Kind, mixed, record, settings, written
from trainer_bridge.sinks.base import RefusedError
from trainer_bridge.sinks.datasets import DatasetSink
from trainer_bridge.sinks.datasets.columns import COLUMNS
from trainer_bridge.training import TrainingGroup


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def loaded(folder: Path, cache: Path) -> list[dict[str, Any]]:
    return list(load_dataset(str(folder), split="train", cache_dir=str(cache)))


def split(flat: Any, counts: list[int]) -> list[list[float]]:
    values = iter(flat.tolist())
    return [[next(values) for _ in range(count)] for count in counts]


def with_every_key(message: dict[str, Any]) -> dict[str, Any]:
    keys = ("role", "content", "reasoning", "tool_calls", "tool_call_id", "name")
    assert message.keys() <= set(keys)
    return {key: message.get(key) for key in keys}


def assert_same(row: dict[str, Any], record: EpisodeRecord, group: TrainingGroup) -> None:
    """The row tells the record, value by value."""
    spec, tokens, taught = record.result.spec, record.row, record.distillation
    assert (row["episode"], row["uid"]) == (spec.episode.name, spec.episode.uid)
    assert (row["group"], row["task"], row["family"]) == (group.name, group.task, group.family)
    assert spec.group is not None
    assert row["member"] == spec.group.member
    assert (row["verdict"], row["reason"]) == (spec.verdict.value, spec.reason)
    assert row["reward"] == spec.reward
    components = {part["name"]: part["value"] for part in row["reward_components"]}
    assert components == spec.reward_components
    assert (row["harness"], row["image"]) == (spec.harness, spec.image)
    assert (row["agent_kind"], row["agent_end"]) == (spec.agent_kind.value, spec.agent_end)
    counted = (row["turns"], row["tool_calls"], row["tool_errors"])
    assert counted == (spec.counts.turns, spec.counts.tool_calls, spec.counts.tool_errors)
    model = spec.model
    assert row["model"] == (model and model.name)
    assert row["logprobs_mode"] == (model and model.logprobs_mode)
    assert row["temperature"] == (model and model.sampling.temperature)
    assert (row["started_at"], row["finished_at"]) == (spec.started_at, spec.finished_at)
    said = record.messages
    assert row["messages"] == (None if said is None else [with_every_key(one) for one in said])
    for name in ("tokens", "mask", "logprobs", "turn"):
        assert row[name] == (None if tokens is None else getattr(tokens, name).tolist())
    spans = [span.model_dump() for span in spec.weight_versions]
    assert row["weight_versions"] == (None if tokens is None else spans)
    counts = None if tokens is None else tokens.student_topk_counts
    for name in ("student_topk_token_ids", "student_topk_logprobs"):
        flat = None if tokens is None else getattr(tokens, name)
        assert row[name] == (None if counts is None else split(flat, counts.tolist()))
    for name in ("positions", "token_ids", "logprobs", "sampled_logprobs"):
        values = None if taught is None else getattr(taught, name).tolist()
        assert row[f"distill_{name}"] == values


@pytest.mark.parametrize("kind", KINDS)
async def test_the_folder_loads_without_arguments_and_is_what_was_sent(
    tmp_path: Path, kind: Kind
) -> None:
    groups = [mixed("run-0"), mixed("run-1")]
    sink = await written(tmp_path / "set", kind, *groups)
    await sink.close()
    rows = loaded(tmp_path / "set", tmp_path / "cache")
    members = [(record, group) for group in groups for record in group.members]
    assert len(rows) == len(members)
    for row, (member, group) in zip(rows, members, strict=True):
        assert list(row) == list(COLUMNS)
        assert_same(row, member, group)
    assert rows[2]["distill_student_topk_logprobs"] == [[-1, -2], [-3, -4]]
    assert rows[3]["distill_student_topk_logprobs"] is None


async def test_both_formats_load_with_the_same_types(tmp_path: Path) -> None:
    features = []
    for kind in KINDS:
        await written(tmp_path / kind, kind, mixed())
        found = load_dataset(str(tmp_path / kind), split="train", cache_dir=str(tmp_path / "cache"))
        features.append(found.features)
    assert features[0] == features[1]
    assert features[0]["logprobs"].feature.dtype == "float32"
    assert features[0]["turn"].feature.dtype == "int16"


async def test_parquet_files_load_without_the_card(tmp_path: Path) -> None:
    await written(tmp_path / "set", "parquet", mixed())
    files = str(tmp_path / "set" / "data" / "*.parquet")
    cache = str(tmp_path / "cache")
    rows = list(load_dataset("parquet", data_files=files, split="train", cache_dir=cache))
    assert rows == loaded(tmp_path / "set", tmp_path / "cache")


async def test_numbers_in_jsonl_are_exact_for_any_reader(tmp_path: Path) -> None:
    await written(tmp_path, "jsonl", mixed())
    [_, line, *_] = (tmp_path / "data" / "run-0.jsonl").read_text().split("\n")
    assert np.array_equal(json.loads(line)["logprobs"], EXACT.astype(np.float64))


async def test_what_is_left_out_is_null(tmp_path: Path) -> None:
    await written(
        tmp_path / "set",
        "parquet",
        mixed(),
        include_messages=False,
        include_distillation=False,
    )
    rows = loaded(tmp_path / "set", tmp_path / "cache")
    empty = [name for name in COLUMNS if name == "messages" or name.startswith("distill_")]
    assert {row[name] is None for row in rows for name in empty} == {True}
    assert rows[2]["student_topk_token_ids"] is not None


async def test_neutral_fill_gives_every_sampled_position_values(tmp_path: Path) -> None:
    group = replace(mixed(), members=mixed().members[:3])
    await written(tmp_path / "set", "parquet", group, neutral_fill=True)
    rows = loaded(tmp_path / "set", tmp_path / "cache")
    assert [row["distill_positions"] for row in rows] == [None, None, [2, 3, 5]]
    assert rows[2]["distill_token_ids"] == [[20, 12], [13, 21], [15, 32]]
    assert rows[2]["distill_sampled_logprobs"] == [-1.5, -0.5, -0.25]
    assert rows[2]["distill_student_topk_logprobs"] == [[-1, -2], [-3, -4], [-0.25, -4, -5]]


def test_what_cannot_be_filled_is_refused(tmp_path: Path) -> None:
    sink = DatasetSink(settings(tmp_path, "parquet", neutral_fill=True))
    with pytest.raises(RefusedError, match=r"Episode run-0-3: .*topLogprobs") as caught:
        sink.check(mixed())
    assert caught.value.reason == "NotFillable"


def test_neutral_fill_of_nothing_is_no_setting(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="needs include_distillation"):
        settings(tmp_path, "parquet", neutral_fill=True, include_distillation=False)
    with pytest.raises(ValidationError, match="extra"):
        settings(tmp_path, "parquet", folders=1)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [{"type": "text", "text": "parts"}]},
        {"role": "user", "content": "x", "audio": "y"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "index": 0}]},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "type": "function"}]},
        {"content": "x"},
    ],
)
def test_what_the_columns_have_no_place_for_is_refused(
    tmp_path: Path, message: dict[str, Any]
) -> None:
    group = mixed()
    told = replace(group.members[0], messages=[message])
    with pytest.raises(RefusedError, match=r"run-0-0: messages\[0\]") as caught:
        DatasetSink(settings(tmp_path, "jsonl")).check(replace(group, members=(told,)))
    assert caught.value.reason == "BadMessages"


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("NonFinite", {"reward": float("nan")}),
        ("NonFinite", {"reward_components": {"a": float("inf")}}),
        ("Malformed", {"row": replace(records.row(), turn=np.zeros(5, dtype=np.int16))}),
    ],
)
def test_a_record_that_is_not_sound_is_refused(
    tmp_path: Path, reason: str, changes: dict[str, Any]
) -> None:
    unsound = record("a", 0, group="g", messages=None, **{"row": records.row(), **changes})
    group = TrainingGroup(name="g", task="t", family="", step=None, members=(unsound,))
    with pytest.raises(RefusedError) as caught:
        DatasetSink(settings(tmp_path, "jsonl")).check(group)
    assert caught.value.reason == reason


def test_an_episode_twice_is_refused(tmp_path: Path) -> None:
    group = mixed()
    doubled = replace(group, members=(*group.members, group.members[0]))
    with pytest.raises(RefusedError, match="5 members of only 4 Episodes") as caught:
        DatasetSink(settings(tmp_path, "jsonl")).check(doubled)
    assert caught.value.reason == "Doubled"


async def test_a_group_of_nothing_but_oracles_has_the_same_columns(tmp_path: Path) -> None:
    group = replace(mixed(), members=mixed().members[:1])
    await written(tmp_path, "parquet", group, mixed("run-1"))
    schemas = [
        pyarrow.parquet.read_schema(tmp_path / "data" / f"run-{number}.parquet")
        for number in range(2)
    ]
    assert schemas[0].equals(schemas[1])


def test_the_columns_are_described() -> None:
    text = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()
    assert [name for name in COLUMNS if f"| `{name}` |" not in text] == []
