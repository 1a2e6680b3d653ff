"""`episodectl golden` on real tasks: right solutions pass, mutilated ones fail, the rest is ERR."""

import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from episode_operator.kube.client import (
    CONFIG_MAPS,
    EPISODE_RESULTS,
    EPISODES,
    KubernetesClient,
    Resource,
)
from episodectl.golden import RUN_LABEL
from tests.cluster import golden_tasks
from tests.cluster.golden_tasks import check, solve, task_toml

_SECONDS = 300


@dataclass(frozen=True)
class Scan:
    """How a scan ended."""

    code: int | None
    results: dict[str, dict[str, Any]]
    stderr: str


async def start(*arguments: str, namespace: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "episodectl", "golden", *arguments),
        *("--namespace", namespace, "--json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **golden_tasks.CALLER},
    )


async def golden(*arguments: str, namespace: str) -> Scan:
    process = await start(*arguments, namespace=namespace)
    async with asyncio.timeout(_SECONDS):
        stdout, stderr = await process.communicate()
    told = json.loads(stdout) if stdout else {"results": []}
    return Scan(process.returncode, {one["task"]: one for one in told["results"]}, stderr.decode())


async def objects(client: KubernetesClient, namespace: str, resource: Resource) -> list[str]:
    """Names of all that a scan can leave behind; the cluster's own ConfigMap is none of it."""
    found = await client.list(resource, namespace, labels={})
    return [
        one["metadata"]["name"] for one in found if one["metadata"]["name"] != "kube-root-ca.crt"
    ]


async def left_behind(client: KubernetesClient, namespace: str) -> list[str]:
    return [
        name
        for resource in (EPISODES, EPISODE_RESULTS, CONFIG_MAPS)
        for name in await objects(client, namespace, resource)
    ]


async def test_right_solutions_pass(
    client: KubernetesClient, namespace: str, image: str, tmp_path: Path
) -> None:
    paths = golden_tasks.write_all(tmp_path, image)
    scan = await golden(*map(str, paths), "-p", "6", namespace=namespace)
    wrong = {name: one for name, one in scan.results.items() if one["result"] != "pass"}
    assert wrong == {}
    assert len(scan.results) == len(golden_tasks.harbor_tasks(image)) + 3 >= 13
    assert scan.code == 0, scan.stderr
    assert {one["reward"] for one in scan.results.values()} == {1.0}
    assert await left_behind(client, namespace) == []


async def test_mutilated_solutions_fail(
    client: KubernetesClient, namespace: str, image: str, tmp_path: Path
) -> None:
    paths = golden_tasks.write_all(tmp_path, image, mutilated=True)
    scan = await golden(*map(str, paths), "--parallel", "6", namespace=namespace)
    wrong = {name: one for name, one in scan.results.items() if one["result"] != "fail"}
    assert wrong == {}
    assert scan.code == 1
    assert all(one["reward"] < 1 for one in scan.results.values())
    assert await left_behind(client, namespace) == []


async def test_what_has_no_verdict_is_err_and_never_a_number(
    namespace: str, image: str, tmp_path: Path
) -> None:
    good = golden_tasks.harbor_tasks(image)["crlf"]
    failing = "healthcheck = {command = 'false', retries = 1}"
    tasks = {
        "no-reward": {**good, "tests/test.sh": "#!/bin/sh\nno-such-program\nexit 0\n"},
        "reward-nan": {**good, "tests/test.sh": "echo nan > /logs/verifier/reward.txt\n"},
        "no-user": {**good, "task.toml": task_toml(image, agent="user = 'ghost'")},
        "setup-fails": {**good, "task.toml": task_toml(image, failing)},
        "needs-gpu": {**good, "task.toml": task_toml(image, "gpus = 1")},
        "fine": good,
    }
    for name, files in tasks.items():
        golden_tasks.write(tmp_path / name, files)
    scan = await golden(str(tmp_path), namespace=namespace)
    assert scan.code == 1
    reasons = {name: one["reason"] for name, one in scan.results.items()}
    assert reasons == {
        "fine": "TestsPassed",
        "needs-gpu": "Unreadable",
        "no-reward": "RewardMissing",
        "no-user": "InvalidTask",
        "reward-nan": "RewardInvalid",
        "setup-fails": "SetupFailed",
    }
    for name, one in scan.results.items():
        assert one["result"] == ("pass" if name == "fine" else "ERR")
        assert (one["reward"] is None) == (name != "fine")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_scan_takes_away_what_it_made(
    client: KubernetesClient, namespace: str, image: str, tmp_path: Path, sent: signal.Signals
) -> None:
    files = golden_tasks.harbor_tasks(image)["crlf"]
    for name in ("one", "two"):
        golden_tasks.write(tmp_path / name, {**files, "solution/solve.sh": solve("sleep 50")})
    process = await start(str(tmp_path), namespace=namespace)
    async with asyncio.timeout(_SECONDS):
        while len(await objects(client, namespace, EPISODES)) < 2:
            await asyncio.sleep(0.2)
        assert len(await objects(client, namespace, CONFIG_MAPS)) >= 4
        process.send_signal(sent)
        _, stderr = await process.communicate()
    assert process.returncode == 130, stderr.decode()
    assert "interrupted" in stderr.decode()
    assert await left_behind(client, namespace) == []


async def test_kept_objects_are_found_by_their_label(
    client: KubernetesClient, namespace: str, image: str, tmp_path: Path
) -> None:
    golden_tasks.write(
        tmp_path / "hello",
        {
            **golden_tasks.harbor_tasks(image)["artifacts"],
            "tests/test.sh": check("[ -f report/a ]"),
        },
    )
    scan = await golden(str(tmp_path / "hello"), "--keep", namespace=namespace)
    assert scan.code == 0, scan.results
    selector = scan.stderr.partition(f"{RUN_LABEL}=")[2].split()[0]
    [episode] = await client.list(EPISODES, namespace, labels={RUN_LABEL: selector})
    assert episode["metadata"]["name"] == scan.results["hello"]["episode"]
    assert await client.list(CONFIG_MAPS, namespace, labels={RUN_LABEL: selector})
    [result] = await client.list(EPISODE_RESULTS, namespace, labels={})
    assert result["spec"]["artifacts"]["encoding"] == "tar+gzip"
