"""What a Harbor task may ask for that an Episode cannot give: refused, with the reason."""

from pathlib import Path

import pytest

from tests.unit import task_folders
from tests.unit.test_sources_harbor import DOCKER, why

SEPARATE = "[verifier]\nenvironment_mode = 'separate'\n"

TOMLS = {
    "environment.gpus is 1": f"{DOCKER}gpus = 1",
    "environment.tpu": f"{DOCKER}tpu = {{type = 'v6e', topology = '2x2'}}",
    "environment.os is windows": f"{DOCKER}os = 'Windows'",
    "environment.mcp_servers": f"{DOCKER}mcp_servers = [{{name = 'm', url = 'x'}}]",
    "environment.skills_dir": f"{DOCKER}skills_dir = '/skills'",
    "environment.cpus is 0": f"{DOCKER}cpus = 0",
    "environment.memory_mb is -1024": f"{DOCKER}memory = '-1G'",
    "environment.workdir is 'app'": f"{DOCKER}workdir = 'app'",
    "task.toml: environment.cpus": f"{DOCKER}cpus = inf",
    "task.toml: environment: Value error, '2GB' is not a size": f"{DOCKER}memory = '2GB'",
    "task.toml: environment: Value error, memory and memory_mb": (
        f"{DOCKER}memory = '2G'\nmemory_mb = 1"
    ),
    "task.toml: environment.allowed_hosts": (
        f"{DOCKER}network_mode = 'allowlist'\nallowed_hosts = ['https://x']"
    ),
    "sandbox.network.allow.0.host": (
        f"{DOCKER}network_mode = 'allowlist'\nallowed_hosts = ['localhost']"
    ),
    "agent.timeout_sec is 0": f"{DOCKER}[agent]\ntimeout_sec = 0",
    "agent.timeout_sec is nan": f"{DOCKER}[agent]\ntimeout_sec = nan",
    "verifier.timeout_sec is 1e+06; the longest": f"{DOCKER}[verifier]\ntimeout_sec = 1e6",
    "setup, agent and tests may take": (
        f"{DOCKER}[agent]\ntimeout_sec = 400000\n[verifier]\ntimeout_sec = 400000"
    ),
    "agent.user": f"{DOCKER}[agent]\nuser = 'Mixed Case'",
    "task.env.0.name": f"{DOCKER}env = {{'a-b' = 'x'}}",
    "agent, verifier and steps have different networks": (
        f"{DOCKER}[agent]\nnetwork_mode = 'no-network'"
    ),
    "verifier.collect": f"{DOCKER}[[verifier.collect]]\ncommand = 'true'",
    "artifact /x: exclude": f"artifacts = [{{source = '/x', exclude = ['*.o']}}]\n{DOCKER}",
    "artifact /x of service db": f"artifacts = [{{source = '/x', service = 'db'}}]\n{DOCKER}",
    "artifact 'out' must be": f"artifacts = ['out']\n{DOCKER}",
    "artifact '/a/../b' must be": f"artifacts = ['/a/../b']\n{DOCKER}",
    "schema_version 1.5 is newer": f"schema_version = '1.5'\n{DOCKER}",
    "schema_version 'next' is not": f"schema_version = 'next'\n{DOCKER}",
    "schema_version '99999": f"schema_version = '{'9' * 5000}'\n{DOCKER}",
    "task.toml is not TOML": "= 1",
    "verifier.environment.docker_image": f"{DOCKER}[verifier.environment]\ndocker_image = 'x'",
    "verifier.environment.cpus is 2, but None": f"{DOCKER}[verifier.environment]\ncpus = 2",
    "verifier.environment.workdir is '/x', but None": (
        f"{DOCKER}[verifier.environment]\nworkdir = '/x'"
    ),
    "verifier.environment.env lacks A": f"{DOCKER}env = {{A = '1'}}\n[verifier.environment]\n",
    "verifier.environment.healthcheck": (
        f"{DOCKER}[verifier.environment]\nhealthcheck = {{command = 'true'}}"
    ),
    "verifier.environment.gpus": f"{DOCKER}[verifier.environment]\ngpus = 1",
    "environment.cpus is 1e+300": f"{DOCKER}cpus = 1e300",
    "environment.memory_mb is 1000000000000": f"{DOCKER}memory_mb = 1000000000000",
    "task.toml is not TOML: maximum recursion": "a = " + "[" * 5000,
    "task.toml is not TOML: Exceeds the limit": f"a = {'9' * 5000}",
    "the healthcheck's timeout_sec is inf": (
        f"{DOCKER}healthcheck = {{command = 'x', timeout_sec = inf}}"
    ),
    "the healthcheck's inf s": f"{DOCKER}healthcheck = {{command = 'x', start_period_sec = inf}}",
    "the healthcheck has more retries": (
        f"{DOCKER}healthcheck = {{command = 'x', retries = {10**30}}}"
    ),
    "the healthcheck's 0.5 s": f"{DOCKER}healthcheck = {{command = 'x', interval_sec = 0.5}}",
}

FILES: dict[str, tuple[str, dict[str, str | bytes | None]]] = {
    "environment/docker-compose.yaml: services": (
        DOCKER,
        {"environment/docker-compose.yaml": "services: {}\n"},
    ),
    "trajectory.json: an agent": (DOCKER, {"trajectory.json": "{}"}),
    "tests/Dockerfile: tests that are part": (
        DOCKER + SEPARATE,
        {"tests/Dockerfile": "FROM scratch\n"},
    ),
    "instruction.md is empty": (DOCKER, {"instruction.md": "# canary\n\n"}),
    "there is no instruction.md": (DOCKER, {"instruction.md": None}),
    "there is no tests/test.sh": (DOCKER, {"tests/test.sh": None}),
    "there is no solution/solve.sh": (DOCKER, {"solution/solve.sh": None}),
    "'utf-8' codec can't decode": (DOCKER, {"tests/test.sh": b"#!/bin/sh\n\xff\n"}),
    "solution/.harborignore is not supported": (DOCKER, {"solution/.harborignore": "*\n"}),
}


@pytest.mark.parametrize("reason", TOMLS)
def test_in_task_toml(tmp_path: Path, reason: str) -> None:
    assert why(task_folders.harbor(tmp_path, TOMLS[reason])).startswith(reason)


@pytest.mark.parametrize("reason", FILES)
def test_in_the_folder(tmp_path: Path, reason: str) -> None:
    toml, files = FILES[reason]
    assert why(task_folders.harbor(tmp_path, toml, files)).startswith(reason)


def test_a_dockerfile_in_tests_matters_only_to_a_separate_verifier(tmp_path: Path) -> None:
    folder = task_folders.harbor(tmp_path, DOCKER, {"tests/Dockerfile": "FROM scratch\n"})
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        why(folder)


def test_files_that_do_not_fit_into_config_maps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer_bridge.sources.archives.LIMIT_BYTES", 300)
    noise = bytes((i * i * 31 + i // 7) % 256 for i in range(4000))
    folder = task_folders.harbor(tmp_path, DOCKER, {"tests/noise": noise})
    assert "when packed" in why(folder)
