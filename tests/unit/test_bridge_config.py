"""The bridge's configuration: what is wrong is told with its field."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from trainer_bridge.config import BridgeConfig, ConfigError, load
from trainer_bridge.sinks.atropos import AtroposSink
from trainer_bridge.sinks.base import Demand
from trainer_bridge.sinks.datasets import DatasetSink

LEAST: dict[str, Any] = {
    "run": "coding",
    "tasks": {"builtin": "coding"},
    "episode": {
        "agent": {"kind": "Model"},
        "model": {"endpoint": "http://vllm:8000", "name": "policy"},
    },
    "sink": {"kind": "atropos", "url": "http://atropos:8000"},
}


class NullSink:
    """A third party's sink."""

    def __init__(self, most: int) -> None:
        self.most = most

    async def demand(self) -> Demand:
        return Demand(groups=self.most)


def read(folder: Path, **changes: Any) -> BridgeConfig:
    path = folder / "bridge.yaml"
    path.write_text(yaml.safe_dump({**LEAST, **changes}))
    return load(path)


def test_the_least_that_is_needed(tmp_path: Path) -> None:
    config = read(tmp_path)
    assert (config.env.group_size, config.env.reruns, config.env.pass_at) == (4, 4, [1])
    assert isinstance(config.make_sink("uid"), AtroposSink)


def test_the_names_of_atropos(tmp_path: Path) -> None:
    """A user's `env` section of an Atropos environment, as far as it is about the same thing."""
    env = {
        "group_size": 8,
        "max_token_length": 4096,
        "max_num_workers": 16,
        "max_batches_offpolicy": 2,
        "min_batch_allocation": 0.5,
        "inference_weight": 2.0,
        "total_steps": 10_000,
        "ensure_scores_are_not_same": False,
        "include_messages": True,
        "steps_per_eval": 500,
        "num_eval_tasks": 10,
        "max_eval_workers": 4,
        "eval_handling": "LIMIT_TRAIN",
    }
    config = read(tmp_path, env=env)
    assert config.env.model_dump(include=set(env)) == env


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"run": "Not A Name"}, "run: "),
        ({"tasks": {}}, "tasks: "),
        ({"tasks": {"builtin": "coding", "path": "x"}}, "tasks: "),
        ({"env": {"group_sice": 4}}, "env.group_sice: there is no such field"),
        ({"env": {"group_size": 0}}, "env.group_size: "),
        ({"env": {"eval_handling": "PAUSE"}}, "env.eval_handling: "),
        ({"episode": {"agent": {"kind": "Model"}}}, "episode.model must be set"),
        ({"episode": {"agent": {"maxTurns": -1}}}, "episode.agent.maxTurns: "),
        ({"sink": {"kind": "redis"}}, "sink: "),
        ({"sink": {"kind": "atropos"}}, "sink.atropos.url: "),
        ({"charts": {"use_wandb": "maybe"}}, "charts.use_wandb: "),
    ],
)
def test_a_mistake_is_told_with_its_field(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError) as error:
        read(tmp_path, **changes)
    assert told in str(error.value)


@pytest.mark.parametrize("text", ["", "- a list", "a: [", "run: \udcff"])
def test_a_file_that_is_no_configuration(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bridge.yaml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError):
        load(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.yaml")


def test_datasets(tmp_path: Path) -> None:
    sink = {"kind": "jsonl", "folder": str(tmp_path / "data")}
    assert isinstance(read(tmp_path, sink=sink).make_sink("uid"), DatasetSink)


def test_a_sink_of_a_third_party_is_one_class(tmp_path: Path) -> None:
    sink = {"kind": "custom", "class": f"{__name__}:NullSink", "options": {"most": 3}}
    made = read(tmp_path, sink=sink).make_sink("uid")
    assert isinstance(made, NullSink)
    assert made.most == 3


@pytest.mark.parametrize(
    ("name", "options"),
    [("no_such_module:Sink", {}), (f"{__name__}:Missing", {}), (f"{__name__}:NullSink", {})],
)
def test_a_class_that_cannot_be_made(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    config = read(tmp_path, sink={"kind": "custom", "class": name, "options": options})
    with pytest.raises(ConfigError, match=r"sink\.class"):
        config.make_sink("uid")
