"""What Harbor tasks may ask for that an Episode cannot give: each with its reason.

A task that asks for one of these is refused as a whole. docs/tasks.md lists them.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path

from trainer_bridge.sources.harbor.reading import Network, Reading, StepReading, step_key
from trainer_bridge.sources.harbor.schema import Artifact, Environment

NEWEST_SCHEMA = (1, 4)

_MAX_STEPS = 32
_LARGEST = 10**9
_VERSION = re.compile(r"\d{1,4}(\.\d{1,4})*", re.ASCII)
_STEP_NAME = re.compile(r"(?=.{1,63}$)[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_COMPOSE_FILES = ("docker-compose.yaml", "docker-compose.yml")
_TRAJECTORY = "trajectory.json"
_SERVICE = "main"


def reason_against(reading: Reading, folder: Path) -> str | None:
    """The first reason why the task in the folder cannot be run, or None."""
    return next(_reasons(reading, folder), None)


def _reasons(reading: Reading, folder: Path) -> Iterator[str]:
    yield from _schema(reading.schema_version)
    yield from _environment(reading.environment, "environment")
    yield from _steps(reading.steps)
    yield from _files(folder, [step.name for step in reading.steps])
    for step in reading.steps:
        for reason in _step(step, reading, folder):
            yield f"step {step.name}: {reason}" if step.name else reason
    networks = {n for step in reading.steps for n in (step.agent_network, step.verifier_network)}
    if len({_comparable(network) for network in networks}) > 1:
        yield (
            "agent, verifier and steps have different networks; a sandbox has one from start to end"
        )


def _schema(version: str) -> Iterator[str]:
    if _VERSION.fullmatch(version) is None:
        yield f"schema_version {version!r:.40} is not a number such as 1.4"
    elif tuple(map(int, version.split(".")[:2])) > NEWEST_SCHEMA:
        yield f"schema_version {version} is newer than 1.4, the newest that is known here"


def _environment(environment: Environment, where: str) -> Iterator[str]:
    if environment.os != "linux":
        yield f"{where}.os is {environment.os}; sandboxes are Linux containers"
    if environment.gpus:
        yield f"{where}.gpus is {environment.gpus}; sandboxes have no GPUs"
    if environment.tpu is not None:
        yield f"{where}.tpu: sandboxes have no TPUs"
    if environment.mcp_servers:
        yield f"{where}.mcp_servers: agents have no MCP servers"
    if environment.skills_dir:
        yield f"{where}.skills_dir: agents have no skills folder"
    for name in ("cpus", "memory_mb", "storage_mb"):
        value = getattr(environment, name)
        if value is not None and not 0 < value <= _LARGEST:
            yield f"{where}.{name} is {value}; a limit must be above 0 and below {_LARGEST:g}"
    if environment.workdir and not environment.workdir.startswith("/"):
        yield f"{where}.workdir is {environment.workdir!r}; it must be an absolute path"


def _files(folder: Path, steps: list[str]) -> Iterator[str]:
    for name in _COMPOSE_FILES:
        if (folder / "environment" / name).exists():
            yield f"environment/{name}: services beside the task's container are not run"
    for place in (folder, *(folder / "steps" / step for step in steps if step)):
        if (place / _TRAJECTORY).exists():
            yield f"{_TRAJECTORY}: an agent cannot be given a conversation to begin with"


def _steps(steps: tuple[StepReading, ...]) -> Iterator[str]:
    if len(steps) > _MAX_STEPS:
        yield f"{len(steps)} steps; an Episode has at most {_MAX_STEPS}"
    for step in steps:
        if step.name and _STEP_NAME.fullmatch(step.name) is None:
            yield f"step {step.name!r}: a name has at most 63 letters, digits, dots, - and _"
    if len({step_key(step.name) for step in steps}) < len(steps):
        yield "two steps have the same name"
    if len({step.agent_user for step in steps}) > 1:
        yield "steps with different agent.user; an Episode's agent is one user"


def _step(step: StepReading, reading: Reading, folder: Path) -> Iterator[str]:
    for artifact in step.artifacts:
        yield from _artifact(artifact)
    for name, value in step.min_reward.items():
        if not math.isfinite(value):
            yield f"min_reward of {name} is {value}; it must be a finite number"
    if step.collects:
        yield "verifier.collect: commands between agent and verifier are not run"
    if step.separate is not None:
        yield from _separate(step.separate, reading, folder, step.name)


def _artifact(artifact: Artifact) -> Iterator[str]:
    if artifact.service not in (None, _SERVICE):
        yield f"artifact {artifact.source} of service {artifact.service}: there are no services"
    if not artifact.source.startswith("/") or ".." in Path(artifact.source).parts:
        yield f"artifact {artifact.source!r} must be an absolute path without `..`"
    if artifact.exclude:
        yield f"artifact {artifact.source}: exclude is not supported"


def _separate(environment: Environment, reading: Reading, folder: Path, step: str) -> Iterator[str]:
    """The verifier's container is one more of the task's pod, like the agent's in all but files."""
    task = reading.environment
    yield from _bundled([folder / "tests", folder / "steps" / step / "tests"])
    if environment is task:
        return
    yield from _environment(environment, "verifier.environment")
    if environment.docker_image:
        yield "verifier.environment.docker_image: tests that are part of an image are not run"
    if environment.healthcheck is not None:
        yield "verifier.environment.healthcheck is not supported"
    for name in ("cpus", "memory_mb", "storage_mb"):
        asked, given = getattr(environment, name), getattr(task, name)
        if asked is not None and asked != given:
            yield f"verifier.environment.{name} is {asked}, but {given} for the agent: it is shared"
    if (environment.workdir or None) != (task.workdir or None):
        yield (
            f"verifier.environment.workdir is {environment.workdir!r}, but {task.workdir!r} for "
            "the agent: it is shared"
        )
    if extra := sorted(set(task.env) - set(environment.env)):
        yield (
            f"verifier.environment.env lacks {extra[0]} of environment.env, which every container "
            "of the sandbox has"
        )


def _bundled(places: list[Path]) -> Iterator[str]:
    for place in places:
        for name in ("Dockerfile", *_COMPOSE_FILES):
            if (place / name).exists():
                yield f"{place.name}/{name}: tests that are part of an image are not run"


def _comparable(network: Network) -> tuple[str, frozenset[str]]:
    return network.mode, frozenset(network.hosts)
