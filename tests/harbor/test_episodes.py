"""Episodes of generated task folders: they carry the values that `harbor`'s own models read."""

import math
from pathlib import Path
from typing import Any

import pytest

from episode_operator.api.agent import Agent, AgentKind
from episode_operator.api.episode import EpisodeSpec
from episode_operator.api.resources import Resources, quantity
from tests.harbor.conftest import Case
from tests.harbor.generate import ENVIRON
from trainer_bridge.sources import Options, Unreadable, load
from trainer_bridge.sources.harbor import HarborTask

UNTIMED = Agent(kind=AgentKind.ORACLE, timeout_seconds=777)
MODES = {"public": "Public", "no-network": "None", "allowlist": "Allowlist"}

Built = tuple[EpisodeSpec, dict[str, Any]]


def write_folder(folder: Path, toml: str, steps: list[str]) -> Path:
    """A task folder around a task.toml."""
    (folder / "environment").mkdir(parents=True)
    (folder / "environment" / "Dockerfile").write_text("FROM scratch\n")
    (folder / "task.toml").write_text(toml)
    for name in steps:
        place = folder / "steps" / name if name else folder
        for file in ("instruction.md", "tests/test.sh", "solution/solve.sh"):
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            (place / file).write_text("#!/bin/sh\n")
    return folder


@pytest.fixture(scope="module")
def built(cases: list[Case], tmp_path_factory: pytest.TempPathFactory) -> list[Built]:
    """The Episodes of all files that can be run, with Harbor's values."""
    options = Options(image="registry.test/{name}:{tag}", environ=ENVIRON)
    found = []
    for index, case in enumerate(cases):
        if case.harbor is None:
            continue
        names = [step["name"] for step in case.harbor["steps"]]
        folder = write_folder(tmp_path_factory.mktemp("task") / f"t{index}", case.toml, names)
        [task] = load(folder, options)
        try:
            if isinstance(task, HarborTask):
                found.append((task.build(UNTIMED, prefix="t").spec, case.harbor))
        except Unreadable:
            continue
    return found


def seconds(harbor: float | None, *, least: int = 1) -> int:
    return UNTIMED.timeout_seconds if harbor is None else max(least, math.ceil(harbor))


def test_enough_can_be_run(built: list[Built]) -> None:
    assert len(built) >= 200
    assert sum(bool(spec.steps) for spec, _ in built) >= 40


def test_time_limits(built: list[Built]) -> None:
    for spec, harbor in built:
        for step, told in zip(spec.plan, harbor["steps"], strict=True):
            limit = step.agent_timeout_seconds or spec.agent.timeout_seconds
            assert limit == seconds(told["agent_seconds"], least=2)
            assert step.verifier.timeout_seconds == seconds(told["verifier_seconds"])
        assert spec.agent.tool_timeout_seconds < spec.agent.timeout_seconds
        assert spec.active_deadline_seconds >= spec.agent.timeout_seconds


def test_resources(built: list[Built]) -> None:
    for spec, harbor in built:
        resources, told = spec.sandbox.resources, harbor["environment"]
        if told["cpus"] is None:
            assert resources.cpu == Resources().cpu
        else:
            assert 0 <= float(quantity(resources.cpu)) - told["cpus"] < 0.001
        for field, default, asked in (
            (resources.memory, Resources().memory, told["memory_mb"]),
            (resources.ephemeral_storage, Resources().ephemeral_storage, told["storage_mb"]),
        ):
            expected = quantity(default) if asked is None else asked * 1024**2
            assert quantity(field) == expected


def test_workdir_and_variables(built: list[Built]) -> None:
    for spec, harbor in built:
        assert spec.task.workdir == harbor["environment"]["workdir"]
        assert {v.name: v.value for v in spec.task.env} == harbor["env"]
        for step, told in zip(spec.plan, harbor["steps"], strict=True):
            variables = {v.name: v.value for v in step.verifier.env}
            assert variables.items() >= told["verifier_env"].items()
            if told["separate"] is None:
                assert variables == told["verifier_env"]


def test_users_networks_and_rewards(built: list[Built]) -> None:
    for spec, harbor in built:
        for step, told in zip(spec.plan, harbor["steps"], strict=True):
            assert spec.agent.user == told["agent_user"]
            assert step.verifier.user == told["verifier_user"]
            assert step.verifier.separate == (told["separate"] is not None)
            assert step.min_reward == told["min_reward"]
            mode, hosts = told["agent_network"]
            assert spec.sandbox.network.mode == (MODES[mode] if hosts else mode_without_hosts(mode))
            assert len(spec.sandbox.network.allow) == len(set(hosts))
        if spec.steps:
            assert spec.step_reward == harbor["step_reward"].capitalize()


def mode_without_hosts(mode: str) -> str:
    """Nothing is reachable where an allowlist is empty."""
    return "None" if mode == "allowlist" else MODES[mode]
