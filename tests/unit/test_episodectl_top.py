"""`episodectl top`: what is counted, also where parts of the cluster do not answer."""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from episode_operator.api.labels import EPISODE_UID
from episode_operator.kube.rows import Row
from episodectl import overview, usage
from episodectl.overview import Ended, Overview
from episodectl.usage import Usage
from tests.unit import command_line
from tests.unit.command_line import PASSED, add, invoke, lines
from tests.unit.records import Cluster
from tests.unit.test_episodectl_rows import NOW, line

METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"


@pytest.fixture
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    async with command_line.cluster(tmp_path, monkeypatch) as found:
        yield found


def pod(cpu: str, memory: str) -> dict[str, Any]:
    used = {"name": "sandbox", "usage": {"cpu": cpu, "memory": memory}}
    return {"metadata": {"labels": {EPISODE_UID: "u"}}, "containers": [used, used]}


def test_live_episodes() -> None:
    lines = [
        line("old", seconds=90, Phase="Starting"),
        line("older", seconds=99, Phase="Running"),
        line("new", seconds=1),
        line("done", seconds=500, Phase="Finished"),
    ]
    phases, oldest = overview.live(lines)
    assert list(phases.items()) == [("NotTakenUp", 1), ("Starting", 1), ("Running", 1)]
    assert oldest is not None and oldest.name == "old"
    assert overview.live([]) == ({}, None)


def test_only_the_last_minutes_count() -> None:
    cells: dict[str, Any] = {
        "Verdict": "Passed",
        "Reason": "TestsPassed",
        "Turns": 2,
        "Tokens": None,
    }
    found = [line(seconds=599, **cells), line(seconds=601, **cells)]
    assert overview.ended(found, now=NOW, minutes=10) == [Ended("Passed", "TestsPassed", 2, 0)]


def test_usage_of_any_form() -> None:
    found = usage.total([pod("250000000n", "131072Ki"), pod("500m", "1Mi"), pod("0", "0")])
    assert found == Usage(3, 1.5, 2 * (128 * 2**20 + 2**20))
    assert usage.total([]) == Usage(0, 0.0, 0)


def drawn(found: Overview) -> list[str]:
    console = Console(width=120, no_color=True)
    with console.capture() as capture:
        found.print(console)
    return [text.rstrip() for text in capture.get().splitlines()]


def test_what_a_terminal_gets() -> None:
    waiting = Row.of(line("slow", seconds=185, Phase="Starting"))
    done = [Ended("Passed", "TestsPassed", 2, 100)] * 3 + [Ended("NoVerdict", "OOMKilled", 0, 0)]
    found = Overview({"Starting": 1}, waiting, NOW, 10, done, Usage(1, 0.25, 3 * 2**20))
    assert [" ".join(text.split()) for text in drawn(found)] == [
        "live 1 Starting",
        "oldest waiting space/slow for 3m5s",
        "pods 1 with 0.25 cores and 3 MiB together",
        "last 10 min 4 finished, 0.4 a minute; 6 turns, 300 tokens",
        "verdicts Passed 3 (75%), NoVerdict 1 (25%)",
        "reasons TestsPassed 3 (75%), OOMKilled 1 (25%)",
    ]
    empty = Overview({}, None, NOW, 10, [], "no metrics")
    assert [text.split()[0] for text in drawn(empty)] == ["live", "pods", "last"]
    assert str(overview.shares(Counter(b=1, a=1))) == "a 1 (50%), b 1 (50%)"


async def test_values_for_programs(cluster: Cluster) -> None:
    add(cluster, "hello", {"phase": "Starting"})
    add(cluster, "done", PASSED)
    await cluster.add_result()
    cluster.server.objects[f"{METRICS}/hello-a0"] = pod("100m", "1Mi")
    result = await invoke("top", "--minutes", "5")
    assert result.exit_code == 0, result.output
    [told] = lines(result)
    assert (told["live"], told["phases"]) == (1, {"Starting": 1})
    assert told["oldestWaiting"]["name"] == "hello"
    assert told["oldestWaiting"]["seconds"] > timedelta(0).total_seconds()
    assert (told["finished"], told["finishedPerMinute"], told["tokens"]) == (1, 0.2, 6)
    assert (told["verdicts"], told["reasons"]) == ({"Passed": 1}, {"TestsPassed": 1})
    assert (told["pods"], told["cpu"], told["memory"]) == (1, 0.2, 2 * 2**20)


@pytest.mark.parametrize(
    ("status", "message", "why"),
    [
        (404, "404 page not found", "install metrics-server"),
        (
            403,
            'cannot list resource "pods" in API group "metrics.k8s.io" in the namespace "default"',
            "kubectl auth can-i list pods.metrics.k8s.io -n default",
        ),
    ],
)
async def test_a_cluster_without_metrics(
    cluster: Cluster, status: int, message: str, why: str
) -> None:
    cluster.server.refuse = lambda _, path: (status, message) if "metrics" in path else None
    result = await invoke("top")
    assert result.exit_code == 0
    [told] = lines(result)
    assert (told["pods"], told["cpu"], told["finished"]) == (None, None, 0)
    assert why in result.stderr
