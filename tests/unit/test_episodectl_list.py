"""`episodectl list` and the watch of many."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from episode_operator.kube.selection import Selection
from episodectl import listing
from tests.unit import command_line
from tests.unit.command_line import PASSED, add, invoke, lines
from tests.unit.records import Cluster


@pytest.fixture
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    async with command_line.cluster(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
def some(cluster: Cluster) -> Cluster:
    run = {"episodes.dev/run": "coding", "episodes.dev/group": "coding-000001", "team": "a"}
    add(cluster, "first", PASSED, labels=run, created="2026-11-29T09:00:00Z")
    failed = {**PASSED, "verdict": "Failed", "reward": 0.0, "reason": "TestsFailed"}
    add(cluster, "second", failed, labels={"team": "b"})
    add(cluster, "third", {"phase": "Running", "podName": "third-a0"})
    add(cluster, "elsewhere", PASSED, namespace="space")
    return cluster


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((), ["first", "second", "third"]),
        (("-A",), ["first", "second", "elsewhere", "third"]),
        (("-n", "space"), ["elsewhere"]),
        (("--run", "coding"), ["first"]),
        (("--group", "coding-000001"), ["first"]),
        (("--verdict", "Failed", "--verdict", "Passed"), ["first", "second"]),
        (("--reason", "TestsFailed"), ["second"]),
        (("--phase", "Running"), ["third"]),
        (("-l", "team=b"), ["second"]),
        (("-l", "team=b", "--run", "coding"), []),
    ],
)
@pytest.mark.usefixtures("some")
async def test_what_is_listed(arguments: tuple[str, ...], names: list[str]) -> None:
    result = await invoke("list", *arguments)
    assert result.exit_code == 0, result.output
    assert sorted(one["name"] for one in lines(result)) == sorted(names)


@pytest.mark.usefixtures("some")
async def test_a_line() -> None:
    first, _, third = lines(await invoke("list", "--json"))
    assert first["created"] == "2026-11-29T09:00:00+00:00"
    del first["created"]
    assert first == {
        "namespace": "default",
        "name": "first",
        "uid": "uid-of-first",
        "phase": "Finished",
        "verdict": "Passed",
        "reward": 1.0,
        "turns": 2,
        "reason": "TestsPassed",
        "attempt": None,
        "podName": None,
        "run": "coding",
        "group": "coding-000001",
    }
    assert (third["reward"], third["podName"]) == (None, "third-a0")


@pytest.mark.usefixtures("cluster")
async def test_wrong_use() -> None:
    result = await invoke("list", "--verdict", "Maybe")
    assert result.exit_code == 2 and "'--verdict'" in result.stderr
    assert (await invoke("list")).stderr == "no such Episodes here; -A looks everywhere\n"


async def test_a_list_that_is_read_again(some: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_PAUSE_SECONDS", 0.0)
    lists = listing.repeated(some.client, "default", Selection())
    async with asyncio.timeout(10):
        assert [row.name for row in await anext(lists)] == ["first", "second", "third"]
        del some.server.objects[some.path("episodes", "second")]
        assert [row.name for row in await anext(lists)] == ["first", "third"]
