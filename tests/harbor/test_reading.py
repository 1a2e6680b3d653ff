"""Our reading of task.toml against that of `harbor`'s own models, on generated files."""

import json
from pathlib import Path
from typing import Any

from tests.harbor.conftest import Case
from tests.harbor.generate import ENVIRON
from trainer_bridge.sources.errors import UnusableError
from trainer_bridge.sources.harbor.fits import reason_against
from trainer_bridge.sources.harbor.reading import Network, Reading, StepReading, read
from trainer_bridge.sources.harbor.schema import Environment, Healthcheck


def network(value: Network) -> list[Any]:
    return [value.mode, list(value.hosts)]


def healthcheck(value: Healthcheck | None) -> dict[str, Any] | None:
    return None if value is None else value.model_dump()


def environment(value: Environment) -> dict[str, Any]:
    names = ("docker_image", "cpus", "memory_mb", "storage_mb", "gpus", "skills_dir", "os", "env")
    return {
        **{name: getattr(value, name) for name in names},
        "workdir": value.workdir or None,
        "healthcheck": healthcheck(value.healthcheck),
    }


def step(value: StepReading) -> dict[str, Any]:
    same = ("name", "agent_seconds", "agent_user", "verifier_seconds", "verifier_user")
    return {
        **{name: getattr(value, name) for name in (*same, "verifier_env", "min_reward")},
        "agent_network": network(value.agent_network),
        "verifier_network": network(value.verifier_network),
        "separate": value.separate and environment(value.separate),
        "collects": value.collects,
        "healthcheck": healthcheck(value.healthcheck),
        "artifacts": [artifact.model_dump() for artifact in value.artifacts],
    }


def values(reading: Reading) -> dict[str, Any]:
    """Our reading in the form in which the worker tells Harbor's."""
    same = ("name", "version", "schema_version", "env", "solution_env", "step_reward")
    return {
        **{name: getattr(reading, name) for name in same},
        "environment": environment(reading.environment),
        "steps": [step(one) for one in reading.steps],
    }


def comparable(told: dict[str, Any]) -> Any:
    """As JSON, in which NaN equals NaN; an empty destination is none."""
    for one in told["steps"]:
        for artifact in one["artifacts"]:
            artifact["destination"] = artifact["destination"] or None
    return json.loads(json.dumps(told), parse_constant=str)


def test_values_are_those_of_harbor(cases: list[Case]) -> None:
    read_by_both = [case for case in cases if case.harbor is not None]
    assert len(read_by_both) >= 400
    for case in read_by_both:
        assert case.harbor is not None
        ours = comparable(values(read(case.toml, ENVIRON)))
        assert ours == comparable(case.harbor), case.toml


def test_what_harbor_refuses_is_refused(cases: list[Case], tmp_path: Path) -> None:
    refused = [case.toml for case in cases if case.harbor is None]
    assert len(refused) >= 50
    for toml in refused:
        try:
            reading = read(toml, ENVIRON)
        except UnusableError:
            continue
        assert reason_against(reading, tmp_path) is not None, toml


def test_most_of_what_harbor_reads_can_be_run(cases: list[Case], tmp_path: Path) -> None:
    readings = [read(case.toml, ENVIRON) for case in cases if case.harbor is not None]
    assert sum(reason_against(one, tmp_path) is None for one in readings) >= 200
