"""Trajectories of the bridge: Harbor's own validator takes them, and reads what was recorded."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from episode_operator.results.record import EpisodeRecord
from tests.harbor.environment import ensure_models
from tests.unit import records
from tests.unit.mixed_groups import TOOL_CALLS, record
from tests.unit.test_bridge_atif import MALFORMED, group
from trainer_bridge.sinks.atif import AtifSettings, AtifSink

WORKER = """
import json, sys
from pathlib import Path
from harbor.models.trajectories import Trajectory
from harbor.utils.trajectory_validator import TrajectoryValidator

answers = {}
for name in sys.argv[1:]:
    validator = TrajectoryValidator()
    valid = validator.validate(Path(name))
    read = Trajectory.model_validate_json(Path(name).read_text()).to_json_dict() if valid else None
    answers[Path(name).name] = {"errors": validator.get_errors(), "read": read}
json.dump(answers, sys.stdout)
"""
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "several-turns": records.CONVERSATION,
    "several-calls": TOOL_CALLS,
    "malformed-calls": MALFORMED,
}


def harbor(*files: Path) -> dict[str, Any]:
    """What Harbor says to each file, by its name."""
    told = subprocess.run(
        [str(ensure_models(print)), "-c", WORKER, *map(str, files)],
        capture_output=True,
        text=True,
        check=True,
    )
    answers: dict[str, Any] = json.loads(told.stdout)
    return answers


def members() -> list[EpisodeRecord]:
    """Every conversation, of a model and of an agent that samples nothing, nor reasons."""
    sampled = [
        record(name, 0, group="run-0", messages=messages, row=records.row())
        for name, messages in CONVERSATIONS.items()
    ]
    scripted = [
        record(f"{name}-scripted", 1, group="run-0", messages=without_reasoning(messages))
        for name, messages in CONVERSATIONS.items()
    ]
    return [*sampled, *scripted]


def without_reasoning(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in message.items() if key != "reasoning"} for message in messages
    ]


@pytest.fixture
async def files(tmp_path: Path) -> list[Path]:
    """The trajectories, in the order of the members."""
    sink = AtifSink(AtifSettings(folder=tmp_path))
    await sink.open()
    await sink.send(group(*members()))
    return [tmp_path / f"{one.result.metadata['name']}.json" for one in members()]


def test_harbor_takes_every_trajectory_and_reads_all_of_it(files: list[Path]) -> None:
    answers = harbor(*files)
    assert {name: answer["errors"] for name, answer in answers.items()} == {
        file.name: [] for file in files
    }
    for file in files:
        assert answers[file.name]["read"] == json.loads(file.read_text())


def test_harbor_reads_the_row(files: list[Path]) -> None:
    answers = harbor(*files)
    row = records.row()
    for file in files[: len(CONVERSATIONS)]:
        turns = [
            step["metrics"] for step in answers[file.name]["read"]["steps"] if "metrics" in step
        ]
        last = turns[-1]
        whole = [*last["prompt_token_ids"], *last["completion_token_ids"]]
        assert whole == row.tokens.tolist()
        logprobs = np.concatenate([turn["logprobs"] for turn in turns])
        assert np.array_equal(logprobs.astype(np.float32), row.logprobs[row.mask])


def test_harbor_refuses_what_is_not_valid(files: list[Path]) -> None:
    file = files[list(CONVERSATIONS).index("several-calls")]
    found = json.loads(file.read_text())
    found["steps"][2]["tool_calls"].pop()
    file.write_text(json.dumps(found))
    assert "call_0_1" in " ".join(harbor(file)[file.name]["errors"])
