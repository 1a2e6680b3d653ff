"""`episodectl retry` and `cancel`."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from episodectl.copies import copied
from episodectl.errors import CommandError
from tests.unit import command_line, task_folders
from tests.unit.command_line import FINISHED, PASSED, add, end_all, invoke, lines, stored
from tests.unit.records import Cluster

RUN = {"episodes.dev/run": "coding", "episodes.dev/group": "coding-000001"}


@pytest.fixture
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    async with command_line.cluster(tmp_path, monkeypatch) as found:
        yield found


def finished(cluster: Cluster, **more: Any) -> dict[str, Any]:
    labels = {**RUN, "team": "a"}
    group = {"name": "coding-000001", "member": 2}
    return add(cluster, "hello", PASSED, labels=labels, group=group, **more)


async def test_only_the_spec_and_the_users_labels(cluster: Cluster) -> None:
    old = finished(cluster)
    old["metadata"] |= {
        "ownerReferences": [{"uid": "u"}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        "finalizers": ["x"],
    }
    copy = copied(old)
    name = copy.body["metadata"]["name"]
    assert copy.body["metadata"] == {
        "name": name,
        "namespace": "default",
        "labels": {"team": "a"},
    }
    assert name.startswith("hello-retry-")
    assert copy.body["spec"] == {key: value for key, value in old["spec"].items() if key != "group"}
    assert "group" in old["spec"] and "status" not in copy.body
    assert copy.dropped == (
        "label episodes.dev/run=coding",
        "label episodes.dev/group=coding-000001",
        "spec.group coding-000001, member 2",
    )
    again = copied({**old, "metadata": {**old["metadata"], "name": name}})
    assert again.body["metadata"]["name"].count("-retry-") == 1
    assert copied(old, "other").body["metadata"]["name"] == "other"


async def test_one_that_is_at_work(cluster: Cluster) -> None:
    old = add(cluster, "hello", {"phase": "Running"})
    with pytest.raises(CommandError, match="is not finished, its phase is Running"):
        copied(old)


async def test_a_retry_waits_and_says_what_it_left_out(cluster: Cluster) -> None:
    finished(cluster)
    end_all(cluster, verdict="Failed", reward=0.0)
    result = await invoke("retry", "hello", "--name", "again")
    assert result.exit_code == 1, result.output
    assert lines(result)[0]["name"] == "again"
    assert result.stderr.count("left out: ") == 3
    [_, made] = stored(cluster, "episodes")
    assert made["metadata"]["labels"] == {"team": "a"}


async def test_files_stay_for_the_new_one(cluster: Cluster, tmp_path: Path) -> None:
    end_all(cluster)
    folder = str(task_folders.harbor(tmp_path / "hello"))
    await invoke("run", folder, "--agent", "Oracle", "--name", "hello")
    result = await invoke("retry", "hello", "--name", "again")
    assert result.exit_code == 0, result.output
    uids = [episode["metadata"]["uid"] for episode in stored(cluster, "episodes")]
    for part in stored(cluster, "configmaps"):
        assert [owner["uid"] for owner in part["metadata"]["ownerReferences"]] == uids
    part = stored(cluster, "configmaps")[0]["metadata"]["name"]
    del cluster.server.objects[f"/api/v1/namespaces/default/configmaps/{part}"]
    result = await invoke("retry", "hello")
    assert result.exit_code == 2 and f"ConfigMap {part} is no more" in result.stderr
    assert len(stored(cluster, "episodes")) == 2


async def test_files_without_an_owner_get_none(cluster: Cluster, tmp_path: Path) -> None:
    end_all(cluster)
    folder = str(task_folders.harbor(tmp_path / "hello"))
    await invoke("run", folder, "--agent", "Oracle", "--name", "hello")
    for part in stored(cluster, "configmaps"):
        del part["metadata"]["ownerReferences"]
    assert (await invoke("retry", "hello")).exit_code == 0
    assert all("ownerReferences" not in one["metadata"] for one in stored(cluster, "configmaps"))


async def test_cancel(cluster: Cluster) -> None:
    add(cluster, "hello", {"phase": "Running"})
    add(cluster, "world")
    add(cluster, "other")
    result = await invoke("cancel", "hello", "world", "hello")
    assert result.exit_code == 2 and "give --yes" in result.stderr
    assert len(stored(cluster, "episodes")) == 3
    result = await invoke("cancel", "hello", "world", "--yes")
    assert result.exit_code == 0
    assert result.stdout == "episode/hello deleted\nepisode/world deleted\n"
    assert "hello  Running" in result.stderr and "world  not taken up yet" in result.stderr
    assert [one["metadata"]["name"] for one in stored(cluster, "episodes")] == ["other"]


async def test_what_is_finished_is_not_cancelled(cluster: Cluster) -> None:
    add(cluster, "hello", {"conditions": [FINISHED]})
    add(cluster, "world", {"phase": "Running"})
    result = await invoke("cancel", "world", "hello", "--yes")
    assert result.exit_code == 2
    assert "kubectl delete episode hello -n default" in result.stderr
    assert len(stored(cluster, "episodes")) == 2
