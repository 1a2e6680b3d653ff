"""Harbor task folders as Episodes: what each part of a folder becomes."""

import base64
import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from episode_operator.api.agent import Agent, AgentKind
from episode_operator.api.base import Archive
from episode_operator.api.episode import EpisodeSpec
from tests.unit import task_folders
from tests.unit.task_folders import IMAGE
from trainer_bridge.sources import Build, Options, Unreadable, load, manifest
from trainer_bridge.sources.harbor import HarborTask

ORACLE = Agent(kind=AgentKind.ORACLE, timeout_seconds=900)
MODEL = Agent(kind=AgentKind.MODEL, timeout_seconds=900)
DOCKER = f'[environment]\ndocker_image = "{IMAGE}"\n'


def read(folder: Path, **options: Any) -> HarborTask:
    [task] = load(folder, Options(**{"environ": {}, **options}))
    if isinstance(task, Unreadable):
        raise task
    assert isinstance(task, HarborTask)
    return task


def build(folder: Path, agent: Agent = ORACLE, **options: Any) -> Build:
    return read(folder, **options).build(agent, prefix="t")


def spec(folder: Path, agent: Agent = ORACLE, **options: Any) -> EpisodeSpec:
    return build(folder, agent, **options).spec


def why(folder: Path, agent: Agent = ORACLE, **options: Any) -> str:
    with pytest.raises(Unreadable) as caught:
        build(folder, agent, **options)
    assert caught.value.path == str(folder)
    return caught.value.reason


def unpacked(made: Build, archive: Archive) -> dict[str, tarfile.TarInfo | bytes]:
    """The files of an archive by their path in the sandbox; folders are their tar entry."""
    parts = {part.name: part.data for part in made.parts}
    data = gzip.decompress(b"".join(parts[name] for name in archive.parts))
    found: dict[str, tarfile.TarInfo | bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar.getmembers():
            file = tar.extractfile(member)
            found[f"{archive.path}/{member.name}"] = member if file is None else file.read()
    return found


def test_a_minimal_task(tmp_path: Path) -> None:
    made = build(task_folders.harbor(tmp_path / "hello"))
    task, verifier = made.spec.task, made.spec.verifier
    assert verifier is not None and verifier.test_script is not None and task.solution is not None
    assert task.image == IMAGE
    assert task.instruction == "Write a word to out.txt.\n"
    assert made.spec.agent.timeout_seconds == 900, "the caller's, as the task has none"
    assert verifier.timeout_seconds == 600
    assert verifier.test_script.script == task_folders.PASS
    assert task.solution.script == "/solution/solve.sh\n"
    assert {v.name: v.value for v in task.solution.env} == {"DEBIAN_FRONTEND": "noninteractive"}
    [solution] = task.solution.archives
    assert unpacked(made, solution) == {"/solution/solve.sh": b"#!/bin/sh\necho word > out.txt\n"}
    assert made.spec.sandbox.network.mode == "Public"
    assert made.spec.artifacts == ["/logs/artifacts"]


def test_the_logs_folders_are_there_for_everyone(tmp_path: Path) -> None:
    made = build(task_folders.harbor(tmp_path))
    [logs] = made.spec.task.archives
    folders = unpacked(made, logs)
    assert set(folders) == {"/logs/agent", "/logs/artifacts"}
    assert all(isinstance(f, tarfile.TarInfo) and f.mode == 0o777 for f in folders.values())


def test_only_an_oracle_has_the_solution(tmp_path: Path) -> None:
    made = build(task_folders.harbor(tmp_path), MODEL)
    assert made.spec.task.solution is None
    assert all(b"echo word" not in gzip.decompress(part.data) for part in made.parts)


def test_an_episode_needs_no_solution_unless_it_is_the_oracles(tmp_path: Path) -> None:
    folder = task_folders.harbor(tmp_path, files={"solution/solve.sh": None})
    assert why(folder) == "there is no solution/solve.sh for the Oracle to run"
    assert build(folder, MODEL).spec.task.solution is None


def test_names_do_not_change(tmp_path: Path) -> None:
    assert read(task_folders.harbor(tmp_path / "a-task")).name == "a-task"
    toml = DOCKER + '[task]\nname = "org/other"\n'
    assert read(task_folders.harbor(tmp_path / "b-task", toml)).name == "org/other"


def test_canary_lines_are_not_shown(tmp_path: Path) -> None:
    text = "<!-- a CANARY line -->\r\n# canary GUID 1\r\n\r\nDo it.\r\n# canary stays here\r\n"
    folder = task_folders.harbor(tmp_path, files={"instruction.md": text})
    assert spec(folder).task.instruction == "Do it.\n# canary stays here\n"


def test_images(tmp_path: Path) -> None:
    folder = task_folders.harbor(tmp_path / "My_Task", '[task]\nname = "org/X"\nversion = "1.2"\n')
    assert why(folder).startswith("no image: task.toml has no environment.docker_image")
    template = "registry.test/{name}:{tag}"
    assert read(folder, image=template).image == "registry.test/x:1.2"
    plain = task_folders.harbor(tmp_path / "My_Task+")
    assert read(plain, image=template).image == "registry.test/my_task:latest"


def test_limits_workdir_and_variables(tmp_path: Path) -> None:
    toml = """
    schema_version = "1.4"
    [environment]
    docker_image = "x"
    cpus = 1.5
    memory_mb = 2048
    storage_mb = 512
    workdir = "/app"
    env = {A = "${HERE}", B = "${NOT_HERE:-b}", C = "c ${HERE}"}
    [agent]
    timeout_sec = 45.2
    user = 1000
    [verifier]
    timeout_sec = 12.5
    user = "root"
    env = {D = "d"}
    [solution]
    env = {E = "${HERE}"}
    """
    made = spec(task_folders.harbor(tmp_path, toml), environ={"HERE": "from here"})
    verifier, solution = made.verifier, made.task.solution
    assert verifier is not None and solution is not None
    resources = made.sandbox.resources
    assert (resources.cpu, resources.memory, resources.ephemeral_storage) == (
        "1500m",
        "2048Mi",
        "512Mi",
    )
    assert made.task.workdir == "/app"
    variables = {v.name: v.value for v in made.task.env}
    assert variables == {"A": "from here", "B": "b", "C": "c ${HERE}"}
    assert (made.agent.timeout_seconds, made.agent.tool_timeout_seconds) == (46, 45)
    assert (made.agent.user, verifier.user) == ("1000", "root")
    assert verifier.timeout_seconds == 13
    assert {v.name: v.value for v in verifier.env} == {"D": "d"}
    assert {v.name: v.value for v in solution.env}["E"] == "from here"


def test_a_variable_that_is_not_set(tmp_path: Path) -> None:
    folder = task_folders.harbor(tmp_path, DOCKER + 'env = {KEY = "${SECRET}"}\n')
    assert why(folder) == "KEY needs the variable SECRET, which is not set here"


def test_old_fields(tmp_path: Path) -> None:
    toml = f'version = "1.0"\n{DOCKER}memory = "2G"\nstorage = "10G"\nallow_internet = false\n'
    made = spec(task_folders.harbor(tmp_path, toml))
    assert made.sandbox.resources.memory == "2048Mi"
    assert made.sandbox.resources.ephemeral_storage == "10240Mi"
    assert made.sandbox.network.mode == "None"


def test_hosts_addresses_and_blocks(tmp_path: Path) -> None:
    hosts = ["Example.com.", "*.pypi.org", "192.0.2.7", "10.0.0.0/8", "2001:db8::1"]
    toml = f'{DOCKER}network_mode = "allowlist"\nallowed_hosts = {hosts}\n'
    network = spec(task_folders.harbor(tmp_path, toml)).sandbox.network
    assert network.mode == "Allowlist"
    assert [rule.host or rule.cidr for rule in network.allow] == [
        "example.com",
        "*.pypi.org",
        "192.0.2.7/32",
        "10.0.0.0/8",
        "2001:db8::1/128",
    ]


def test_an_empty_allowlist_reaches_nothing(tmp_path: Path) -> None:
    toml = DOCKER + 'network_mode = "allowlist"\n'
    assert spec(task_folders.harbor(tmp_path, toml)).sandbox.network.mode == "None"


def test_the_whole_tests_folder_goes_along(tmp_path: Path) -> None:
    files = {"tests/data/expected.bin": b"\x00\xff\r\n"}
    made = build(task_folders.harbor(tmp_path, files=files))
    assert made.spec.verifier is not None and made.spec.verifier.test_script is not None
    [tests] = made.spec.verifier.test_script.archives
    assert unpacked(made, tests)["/tests/data/expected.bin"] == b"\x00\xff\r\n"
    assert "/tests/test.sh" not in unpacked(made, tests)


def test_line_ends_and_interpreters_of_scripts(tmp_path: Path) -> None:
    files = {
        "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\r\n",
        "solution/solve.sh": "#!/bin/sh\r\ntrue\r\n",
    }
    made = build(task_folders.harbor(tmp_path, files=files))
    assert made.spec.verifier is not None and made.spec.verifier.test_script is not None
    script = made.spec.verifier.test_script.script
    assert script == "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n"
    assert made.spec.task.solution is not None
    [solution] = made.spec.task.solution.archives
    assert unpacked(made, solution) == {"/solution/solve.sh": b"#!/bin/sh\ntrue\n"}


def test_files_for_the_workdir_of_a_ready_image(tmp_path: Path) -> None:
    folder = task_folders.harbor(tmp_path)
    task_folders.write(folder, {"environment/data/in.csv": "1,2\n"})
    made = build(folder)
    _, files = made.spec.task.archives
    assert unpacked(made, files)[f"{files.path}/data/in.csv"] == b"1,2\n"
    assert made.spec.task.setup is not None
    assert made.spec.task.setup.script == f"set -e\ncp -a {files.path}/. .\nrm -rf {files.path}\n"
    task_folders.write(folder, {"environment/Dockerfile": "FROM scratch\n"})
    assert spec(folder).task.setup is None, "the folder says how the image is built"


def test_files_for_the_workdir_of_an_image_that_the_caller_names(tmp_path: Path) -> None:
    toml = '[environment]\nworkdir = "/w"\n'
    folder = task_folders.harbor(tmp_path, toml, {"environment/in.csv": "1,2\n"})
    made = build(folder, image=IMAGE)
    _, files = made.spec.task.archives
    assert unpacked(made, files)[f"{files.path}/in.csv"] == b"1,2\n"


def test_a_separate_verifier_gets_the_artifacts(tmp_path: Path) -> None:
    toml = f"""
    artifacts = ["/app/out", {{source = "/app/report.json", destination = "kept"}}]
    {DOCKER}
    env = {{A = "task", B = "task"}}
    [verifier]
    environment_mode = "separate"
    env = {{B = "verifier"}}
    """
    folder = task_folders.harbor(tmp_path, toml)
    verifier = spec(folder).verifier
    assert verifier is not None and verifier.separate
    assert verifier.carry == ["/logs/artifacts", "/app/out", "/app/report.json"]
    assert spec(folder).artifacts == verifier.carry
    assert {v.name: v.value for v in verifier.env} == {"A": "task", "B": "verifier"}
    assert read(folder).notes == ("artifact /app/report.json is kept under its path, not as kept",)


def test_unknown_keys_are_told(tmp_path: Path) -> None:
    toml = f'colour = "red"\n{DOCKER}speed = 1\nmemory = 7\n[metadata]\nanything = 1\n'
    notes = read(task_folders.harbor(tmp_path, toml)).notes
    assert [note.split()[1] for note in notes] == [
        "colour",
        "environment.speed",
        "environment.memory",
    ]


def test_the_deadline_leaves_each_attempt_its_time(tmp_path: Path) -> None:
    made = spec(task_folders.harbor(tmp_path, DOCKER + "[agent]\ntimeout_sec = 5000\n"))
    one = made.sandbox.start_deadline_seconds + 5000 + 600
    assert made.active_deadline_seconds >= one * (1 + made.infra_retry_limit)


def test_a_manifest_holds_what_is_set(tmp_path: Path) -> None:
    body = manifest("hello", spec(task_folders.harbor(tmp_path)))
    assert body["metadata"] == {"name": "hello"}
    assert body["spec"]["agent"] == {
        "kind": "Oracle",
        "timeoutSeconds": 900,
    }
    assert EpisodeSpec.model_validate(body["spec"]) == spec(tmp_path)


def test_parts_are_base64(tmp_path: Path) -> None:
    [part, *_] = build(task_folders.harbor(tmp_path)).parts
    body = part.to_api("default", {})
    assert base64.b64decode(body["binaryData"]["part"]) == part.data
