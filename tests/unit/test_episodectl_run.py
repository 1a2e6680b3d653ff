"""`episodectl run`: what is created, what is shown, how it exits."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from episode_operator.api.episode import EpisodeSpec, EpisodeStatus
from episodectl import episodes
from episodectl.following import described
from tests.unit import command_line, task_folders
from tests.unit.command_line import end_all, invoke, lines, stored
from tests.unit.records import Cluster

MODEL = ("--model", "http://vllm.models.svc:8000/policy")


@pytest.fixture
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    async with command_line.cluster(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
def flags(tmp_path: Path) -> tuple[str, ...]:
    test = tmp_path / "test.sh"
    test.write_text("echo 1 > /logs/verifier/reward.txt\n")
    return (
        *("--image", "registry.test/task:1", "--instruction", "Write a word."),
        *("--verifier", str(test), *MODEL),
    )


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({}, 0),
        ({"verdict": "Failed", "reward": 0.0, "reason": "TestsFailed"}, 1),
        ({"verdict": "NoVerdict", "reward": None, "reason": "OOMKilled"}, 3),
    ],
)
async def test_the_verdict_is_the_exit_code(
    cluster: Cluster, flags: tuple[str, ...], status: dict[str, Any], code: int
) -> None:
    end_all(cluster, **status)
    result = await invoke("run", *flags, "--name", "hello", "--label", "team=a")
    assert result.exit_code == code, result.output
    [told] = lines(result)
    [made] = stored(cluster, "episodes")
    assert told["name"] == made["metadata"]["name"] == "hello"
    assert made["metadata"]["labels"] == {"team": "a"}
    assert (told["verdict"], told["reward"]) == (
        status.get("verdict", "Passed"),
        status.get("reward", 1.0),
    )
    assert "episode/hello created in namespace default" in result.stderr


async def test_detached(cluster: Cluster, flags: tuple[str, ...]) -> None:
    result = await invoke("run", *flags, "--detach")
    [made] = stored(cluster, "episodes")
    assert (result.exit_code, result.stdout) == (0, f"{made['metadata']['name']}\n")
    assert f"root watch {made['metadata']['name']}" in result.stderr


async def test_a_folder(cluster: Cluster, tmp_path: Path) -> None:
    end_all(cluster)
    folder = task_folders.harbor(tmp_path / "Hello_World")
    result = await invoke("run", str(folder), "--agent", "Oracle")
    assert result.exit_code == 0, result.output
    [made] = stored(cluster, "episodes")
    assert made["metadata"]["name"].startswith("hello-world-")
    assert made["spec"]["agent"]["kind"] == "Oracle"
    parts = stored(cluster, "configmaps")
    owners = [owner for part in parts for owner in part["metadata"]["ownerReferences"]]
    assert [owner["uid"] for owner in owners] == [made["metadata"]["uid"]] * len(parts)
    assert len(parts) == 2


async def test_a_dry_run_needs_no_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    result = await invoke("run", *flags, "--dry-run", "--name", "hello")
    assert result.exit_code == 0
    [episode] = yaml.safe_load_all(result.stdout)
    assert (episode["kind"], episode["metadata"]) == ("Episode", {"name": "hello"})
    EpisodeSpec.model_validate(episode["spec"])
    folder = task_folders.harbor(tmp_path / "hello")
    result = await invoke("run", str(folder), *MODEL, "--dry-run", "-n", "space")
    kinds = [
        (one["kind"], one["metadata"]["namespace"]) for one in yaml.safe_load_all(result.stdout)
    ]
    assert kinds == [("ConfigMap", "space"), ("Episode", "space")]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "missing --image, --instruction, --verifier, --model"),
        (("FOLDER",), "missing --model URL/NAME"),
        (("FOLDER", *MODEL, "--instruction", "x"), "a folder has its own instruction"),
        (("FOLDER", "--temperature", "1"), "--temperature and --max-tokens need --model"),
        (("FOLDER", *MODEL, "--name", "No Name"), "is no name of an object"),
        (("absent", *MODEL), "there is no such file or folder"),
        (("FOLDER", "--agent", "Nobody"), "Invalid value for '--agent'"),
    ],
)
async def test_wrong_use(
    cluster: Cluster, tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    folder = task_folders.harbor(tmp_path / "hello")
    given = [str(folder) if argument == "FOLDER" else argument for argument in arguments]
    result = await invoke("run", *given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert why in result.stderr and cluster.server.objects == {}


@pytest.mark.parametrize(("method", "plural"), [("POST", "episodes"), ("PATCH", "configmaps")])
async def test_what_is_refused_leaves_nothing(
    cluster: Cluster, tmp_path: Path, method: str, plural: str
) -> None:
    cluster.server.refuse = lambda asked, path: (
        (422, "spec.x: wrong") if asked == method and plural in path else None
    )
    folder = task_folders.harbor(tmp_path / "hello")
    result = await invoke("run", str(folder), *MODEL)
    assert result.exit_code == 2 and "spec.x: wrong" in result.stderr
    assert cluster.server.objects == {}


async def test_a_name_that_is_taken(cluster: Cluster, tmp_path: Path) -> None:
    end_all(cluster)
    run = ("run", str(task_folders.harbor(tmp_path / "hello")), *MODEL, "--name", "hello")
    assert (await invoke(*run)).exit_code == 0
    before = dict(cluster.server.objects)
    result = await invoke(*run)
    assert result.exit_code == 2 and "the name hello is taken" in result.stderr
    assert "choose another --name" in result.stderr
    assert cluster.server.objects == before


async def test_nobody_works_on_it(
    cluster: Cluster, flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episodes, "_UPTAKE_SECONDS", 0.0)
    result = await invoke("run", *flags)
    assert result.exit_code == 2
    assert "NotTakenUp: " in result.stderr and "does it watch namespace default?" in result.stderr
    assert len(stored(cluster, "episodes")) == 1


async def test_watch_with_a_name_waits_as_run_does(cluster: Cluster) -> None:
    command_line.add(cluster, "hello", {"phase": "Running"})
    end_all(cluster, verdict="NoVerdict", reward=None, reason="OOMKilled")
    result = await invoke("watch", "hello")
    assert result.exit_code == 3 and lines(result)[0]["reason"] == "OOMKilled"
    result = await invoke("watch", "hello", "--run", "coding")
    assert result.exit_code == 2 and "not both" in result.stderr


def test_what_is_told_of_a_status() -> None:
    assert described(EpisodeStatus()) == "not taken up yet"
    status = EpisodeStatus.model_validate(
        {
            "phase": "Starting",
            "podName": "hello-a1",
            "attempts": [{"attempt": 0, "reason": "OOMKilled", "message": "of\x1b[2J memory"}],
            "conditions": [
                {
                    "type": "SandboxReady",
                    "status": "False",
                    "reason": "Pending",
                    "message": "no node",
                    "lastTransitionTime": "2026-11-29T10:00:09Z",
                }
            ],
        }
    )
    assert described(status) == (
        "Starting  pod hello-a1  attempt 0 failed, OOMKilled: of\\x1b[2J memory  Pending: no node"
    )
