"""task.toml: any file is a task with the numbers that it says, or is refused with a reason."""

import atexit
import math
import shutil
import tempfile
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from episode_operator.api.agent import Agent, AgentKind
from episode_operator.api.episode import EpisodeSpec
from episode_operator.api.resources import quantity
from tests.unit import task_folders
from trainer_bridge.sources import Options, Unreadable
from trainer_bridge.sources.harbor import read_task

STEPS = ("a", "b")

_AGENT = Agent(kind=AgentKind.ORACLE, timeout_seconds=900)
_OPTIONS = Options(image="registry.test/{name}:{tag}", environ={"SET": "value"})
_VERIFIER_SECONDS = 600.0
_MEBIBYTE = 1 << 20
_SIZES = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}


@cache
def _folder() -> Path:
    """A task that lacks nothing but its task.toml; it is gone with this process."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-task-"))
    atexit.register(shutil.rmtree, folder)
    steps = {
        f"steps/{step}/{name}": content
        for step in STEPS
        for name, content in task_folders.MINIMAL.items()
        if name != "task.toml"
    }
    return task_folders.harbor(folder, files=steps)


def check(toml: bytes) -> EpisodeSpec | None:
    """Any content of a task.toml; gives the Episode, if it is one."""
    folder = _folder()
    file = folder / "task.toml"
    file.write_bytes(toml)
    try:
        spec = read_task(folder, _OPTIONS).build(_AGENT, prefix="task").spec
    except Unreadable as error:
        assert error.reason
        return None
    said = tomllib.loads(file.read_text())
    _finite(spec.model_dump())
    _times(spec, said)
    _sizes(spec, said.get("environment", {}))
    return spec


def _finite(value: Any) -> None:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _finite(each)
    assert not isinstance(value, float) or math.isfinite(value), f"{value} in an Episode"


def _times(spec: EpisodeSpec, said: dict[str, Any]) -> None:
    agent, verifier = said.get("agent", {}), said.get("verifier", {})
    steps = said.get("steps") or [{"agent": agent, "verifier": verifier}]
    assert len(spec.plan) == len(steps)
    for made, step in zip(spec.plan, steps, strict=True):
        wanted = step.get("verifier", {}).get("timeout_sec", _VERIFIER_SECONDS)
        assert made.verifier.timeout_seconds == math.ceil(float(wanted))
        limits = (step.get("agent", {}).get("timeout_sec"), agent.get("timeout_sec"))
        limit = next((float(each) for each in limits if each is not None), _AGENT.timeout_seconds)
        given = made.agent_timeout_seconds or spec.agent.timeout_seconds
        assert given == max(2, math.ceil(limit))


def _sizes(spec: EpisodeSpec, said: dict[str, Any]) -> None:
    resources = spec.sandbox.resources
    for name, given in (("memory", resources.memory), ("storage", resources.ephemeral_storage)):
        old, new = said.get(name), said.get(f"{name}_mb")
        if new is None and isinstance(old, str):
            size = old.strip().upper()
            new = int(float(size[:-1]) * _SIZES[size[-1]])
        if new is not None:
            assert quantity(given) == int(float(new)) * _MEBIBYTE, f"{new} became {given}"
    if said.get("cpus") is not None:
        cpus = float(said["cpus"])
        assert 0 <= float(quantity(resources.cpu)) - cpus <= 0.001 + cpus * 1e-9


def fuzz(data: bytes) -> None:
    """The file."""
    check(data)
