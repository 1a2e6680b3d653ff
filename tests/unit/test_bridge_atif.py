"""Trajectories: every message is a step, every sampled token is with the turn that sampled it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from episode_operator.api.agent import AgentKind
from episode_operator.results.record import EpisodeRecord
from tests.unit import records
from tests.unit.mixed_groups import HOSTILE, TOOL_CALLS, mixed, record
from trainer_bridge.sinks.atif import AtifSettings, AtifSink
from trainer_bridge.sinks.base import NotSentError, RefusedError, Sink
from trainer_bridge.training import TrainingGroup

MALFORMED: list[dict[str, Any]] = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "call_0_0",
                "type": "function",
                "function": {"name": "terminal", "arguments": '{"command": "ls"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_0_1", "content": "error: tool call 1 was not run"},
    {"role": "tool", "tool_call_id": "call_0_0", "name": "terminal", "content": "a.txt"},
    {"role": "user", "content": "Your last answer was cut off"},
    {"role": "assistant", "content": "<tool_call>{"},
    {"role": "tool", "tool_call_id": "call_1_0", "content": "error: it was not run"},
]


def group(*members: EpisodeRecord) -> TrainingGroup:
    return TrainingGroup(name="run-0", task="snow", family="雪", step=None, members=members)


def said(messages: list[dict[str, Any]] | None, **parts: Any) -> EpisodeRecord:
    """A record with these messages, by default of a model that sampled two turns."""
    return record("a", 0, group="run-0", messages=messages, **{"row": records.row(), **parts})


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


async def written(folder: Path, *members: EpisodeRecord) -> list[dict[str, Any]]:
    """The trajectories of the members, as they are in the files."""
    sink = AtifSink(AtifSettings(folder=folder))
    await sink.open()
    sink.check(group(*members))
    await sink.send(group(*members))
    files = [f"{one.result.metadata['name']}.json" for one in members]
    assert names(folder) == sorted(files)
    return [json.loads((folder / file).read_text()) for file in files]


async def test_messages_are_steps_and_answers_are_observations(tmp_path: Path) -> None:
    [found] = await written(tmp_path, said(TOOL_CALLS))
    steps = found["steps"]
    assert [step["step_id"] for step in steps] == [1, 2, 3, 4]
    assert [step["source"] for step in steps] == ["system", "user", "agent", "agent"]
    assert steps[0]["message"] == ""
    assert steps[1]["message"] == HOSTILE
    assert steps[2]["reasoning_content"] == "<img src=x onerror=alert(1)>"
    assert steps[2]["tool_calls"] == [
        {
            "tool_call_id": f"call_0_{number}",
            "function_name": "terminal",
            "arguments": {"command": command},
        }
        for number, command in enumerate(["ls", "echo '雪'"])
    ]
    assert steps[2]["observation"]["results"] == [
        {"source_call_id": "call_0_0", "content": "2026-11-30"},
        {"source_call_id": "call_0_1", "content": HOSTILE},
    ]
    assert steps[3]["message"] == "done"
    assert "tool_calls" not in steps[3]


async def test_answers_to_calls_that_could_not_be_read_name_them(tmp_path: Path) -> None:
    [found] = await written(tmp_path, said(MALFORMED))
    _, first, cut, second = found["steps"]
    assert [call["tool_call_id"] for call in first["tool_calls"]] == ["call_0_0"]
    assert first["observation"]["results"] == [
        {"extra": {"tool_call_id": "call_0_1"}, "content": "error: tool call 1 was not run"},
        {"source_call_id": "call_0_0", "content": "a.txt"},
    ]
    assert (cut["source"], cut["message"]) == ("user", "Your last answer was cut off")
    assert second["message"] == "<tool_call>{"
    assert [one["extra"] for one in second["observation"]["results"]] == [
        {"tool_call_id": "call_1_0"}
    ]


async def test_every_turn_has_its_tokens_and_their_prompt(tmp_path: Path) -> None:
    [found] = await written(tmp_path, said(records.CONVERSATION))
    first, second = (step["metrics"] for step in found["steps"] if step["source"] == "agent")
    assert first == {
        "prompt_tokens": 2,
        "completion_tokens": 2,
        "prompt_token_ids": [10, 11],
        "completion_token_ids": [12, 13],
        "logprobs": [-0.5, -2.0],
        "extra": {"weight_versions": [{"version": "step-1", "start": 0, "end": 2}]},
    }
    assert second == {
        "prompt_tokens": 5,
        "completion_tokens": 1,
        "prompt_token_ids": [10, 11, 12, 13, 14],
        "completion_token_ids": [15],
        "logprobs": [-0.25],
        "extra": {"weight_versions": [{"version": "step-20", "start": 0, "end": 1}]},
    }
    assert found["final_metrics"] == {
        "total_steps": 4,
        "total_prompt_tokens": 7,
        "total_completion_tokens": 3,
    }


async def test_logprobs_are_exact(tmp_path: Path) -> None:
    values = np.array([0, 0, -1.2345678e-12, -0.1, 0, -17.3], dtype=np.float32)
    row = replace(records.row(), logprobs=values)
    [found] = await written(tmp_path, said(records.CONVERSATION, row=row))
    told = [step["metrics"]["logprobs"] for step in found["steps"] if "metrics" in step]
    assert np.array_equal(np.concatenate(told), values[row.mask].astype(np.float64))


async def test_what_sampled_nothing_has_no_metrics(tmp_path: Path) -> None:
    [found] = await written(tmp_path, said(records.CONVERSATION, row=None))
    spoken = [step for step in found["steps"] if step["source"] == "agent"]
    assert [step["llm_call_count"] for step in spoken] == [0, 0]
    assert not any("metrics" in step for step in spoken)
    assert found["final_metrics"] == {"total_steps": 4}
    assert "model_name" not in found["agent"]
    assert found["agent"]["extra"] == {"kind": "Oracle"}


async def test_a_model_without_a_row_is_not_said_to_have_sampled_nothing(tmp_path: Path) -> None:
    told = said(records.CONVERSATION, row=None, agent_kind=AgentKind.MODEL)
    [found] = await written(tmp_path, told)
    assert not any("llm_call_count" in step for step in found["steps"])


async def test_the_trajectory_tells_whose_it_is_and_its_reward(tmp_path: Path) -> None:
    [found] = await written(tmp_path, said(TOOL_CALLS, reward=0.1 + 0.2))
    assert found["session_id"] == "uid-of-a"
    assert found["agent"]["model_name"] == "policy"
    assert found["agent"]["extra"]["sampling"]["temperature"] == 1.0
    extra = found["extra"]
    assert (extra["episode"], extra["group"], extra["member"]) == ("a", "run-0", 0)
    assert (extra["task"], extra["family"]) == ("snow", "雪")
    assert (extra["verdict"], extra["reason"]) == ("Passed", "TestsPassed")
    assert extra["reward"] == 0.1 + 0.2
    assert extra["reward_components"] == {"correctness": 1.0}


@pytest.mark.parametrize(
    ("messages", "reason", "text"),
    [
        (None, "BadMessages", "a has no messages"),
        ([], "BadMessages", "a has no messages"),
        ([*records.CONVERSATION, records.CONVERSATION[1]], "Malformed", "3 messages of the ass"),
        (records.CONVERSATION[:2], "Malformed", r"the turns \[0, 1\]"),
        ([{"role": "tool", "content": "x"}, *records.CONVERSATION], "BadMessages", "out of place"),
        ([{"role": "critic", "content": "x"}, *records.CONVERSATION], "BadMessages", "of critic"),
        ([{"role": "user", "content": "x", "refusal": "y"}], "BadMessages", "would be lost"),
    ],
)
def test_what_is_no_trajectory_is_refused(
    tmp_path: Path, messages: list[dict[str, Any]] | None, reason: str, text: str
) -> None:
    with pytest.raises(RefusedError, match=text) as caught:
        AtifSink(AtifSettings(folder=tmp_path)).check(group(said(messages)))
    assert caught.value.reason == reason


@pytest.mark.parametrize("arguments", ["[1]", "{", '"ls"'])
def test_arguments_without_names_are_refused(tmp_path: Path, arguments: str) -> None:
    messages = json.loads(json.dumps(MALFORMED))
    messages[1]["tool_calls"][0]["function"]["arguments"] = arguments
    with pytest.raises(RefusedError, match="arguments of call_0_0"):
        AtifSink(AtifSettings(folder=tmp_path)).check(group(said(messages)))


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("NonFinite", {"reward": float("inf")}),
        ("Malformed", {"row": replace(records.row(), turn=np.zeros(5, dtype=np.int16))}),
    ],
)
def test_a_record_that_is_not_sound_is_refused(
    tmp_path: Path, reason: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(RefusedError) as caught:
        AtifSink(AtifSettings(folder=tmp_path)).check(group(said(TOOL_CALLS, **changes)))
    assert caught.value.reason == reason


async def test_arrived_is_told_by_the_whole_files_of_all_members(tmp_path: Path) -> None:
    sent = group(*mixed().members[1:3])
    sink: Sink = AtifSink(AtifSettings(folder=tmp_path))
    await sink.open()
    assert not await sink.arrived(sent)
    await sink.send(sent)
    assert await sink.arrived(sent)
    files = names(tmp_path)
    first, second = (tmp_path / name for name in files)
    whole = second.read_bytes()
    for damaged in (b"", whole[:-2], b"[]", first.read_bytes()):
        second.write_bytes(damaged)
        assert not await sink.arrived(sent)
    await sink.send(sent)
    assert second.read_bytes() == whole
    assert names(tmp_path) == files


async def test_a_folder_that_went_away_is_not_sent(tmp_path: Path) -> None:
    sink = AtifSink(AtifSettings(folder=tmp_path / "set"))
    await sink.open()
    (tmp_path / "set").rmdir()
    with pytest.raises(NotSentError, match=r"a-0f5e2f8e\.json cannot be written"):
        await sink.send(group(said(TOOL_CALLS)))


def test_other_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="extra"):
        AtifSettings.model_validate({"folder": tmp_path, "format": "json"})
