"""A real Prometheus reads operator and vLLM, judges the alerts and answers the dashboard."""

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pytest

from tests.chart.cases import EVERYTHING, Manifest
from tests.chart.queries import dashboard, panels
from tests.cluster import kubectl
from tests.cluster.episodes import Episodes, scripted
from tests.cluster.prometheus import Prometheus, Sample, Target
from tests.cluster.vllm import held_out_tasks
from tests.testbed import chart, stack
from tests.testbed.forward import forwarded

COMPONENTS = ("operator", "vllm")
"""Those that the testbed's release has."""

WAIT_SECONDS = 180.0
_POLL_SECONDS = 0.5

MOVED = {
    "Verdicts": {"verdict": "Passed"},
    "Turns": {},
    "Tool calls": {"tool": "terminal"},
    "Requests to the model server": {},
    "Requests to runners": {"operation": "exec"},
    "Latency of a request": {},
    "Time to the first token": {},
}
"""Panels that an Episode moves, and labels of a series that must be among theirs."""

Found = TypeVar("Found")


@dataclass(frozen=True)
class Monitored:
    """A Prometheus whose targets and rules are those of the chart, and its ServiceMonitors."""

    prometheus: Prometheus
    monitors: Mapping[str, Manifest]
    """Component -> its ServiceMonitor."""

    groups: Sequence[Mapping[str, Any]]


async def until(
    ask: Callable[[], Awaitable[Found]], holds: Callable[[Found], bool], what: str
) -> Found:
    """Ask until the answer is as it should be."""
    end = time.monotonic() + WAIT_SECONDS
    while not holds(found := await ask()):
        assert time.monotonic() < end, f"{what}, not within {WAIT_SECONDS:.0f} s: {found}"
        await asyncio.sleep(_POLL_SECONDS)
    return found


@pytest.fixture(scope="module")
async def monitored(
    model: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Monitored]:
    """It runs while the tests of the module do."""
    made = await asyncio.to_thread(
        chart.manifests, stack.RELEASE, stack.NAMESPACE, EVERYTHING, hooks=False
    )
    monitors = {
        one["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"]: one
        for one in made
        if one["kind"] == "ServiceMonitor"
    }
    (rule,) = (one for one in made if one["kind"] == "PrometheusRule")
    async with AsyncExitStack() as forwards:
        targets = [
            await forwards.enter_async_context(_target(made, monitors[component]))
            for component in COMPONENTS
        ]
        groups = rule["spec"]["groups"]
        folder = tmp_path_factory.mktemp("prometheus")
        async with Prometheus.running(folder, targets, groups) as prometheus:
            yield Monitored(prometheus, monitors, groups)


@asynccontextmanager
async def _target(made: Sequence[Manifest], monitor: Manifest) -> AsyncIterator[Target]:
    """The pod that a ServiceMonitor leads to, with the labels that it would give."""
    service = monitor["metadata"]["name"]
    (port,) = (
        one["spec"]["ports"][0]
        for one in made
        if one["kind"] == "Service" and one["metadata"]["name"] == service
    )
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (port["name"], endpoint["path"]) == (endpoint["port"], "/metrics")
    selector = ",".join(f"{k}={v}" for k, v in monitor["spec"]["selector"]["matchLabels"].items())
    (pod,) = await kubectl.items("pods", namespace=stack.NAMESPACE, selector=selector)
    name, (container,) = pod["metadata"]["name"], pod["spec"]["containers"]
    labels = {
        "job": service,
        "namespace": stack.NAMESPACE,
        "service": service,
        "pod": name,
        "container": container["name"],
        "endpoint": endpoint["port"],
    }
    async with forwarded(
        name, port["port"], namespace=stack.NAMESPACE, env=os.environ, kind="pod"
    ) as url:
        yield Target(url, labels)


def asked(expression: str) -> str:
    """A query of the dashboard as Grafana would send it."""
    query = expression.replace("$namespace", stack.NAMESPACE).replace("$__rate_interval", "5m")
    assert "$" not in query, f"a variable is left: {query}"
    return query


async def test_both_targets_are_up(monitored: Monitored) -> None:
    async def targets() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await monitored.prometheus.get("targets"))["activeTargets"]
        return found

    found = await until(
        targets,
        lambda found: [one["health"] for one in found] == ["up"] * len(COMPONENTS),
        "targets that are up",
    )
    assert [one["lastError"] for one in found] == [""] * len(COMPONENTS)
    services = {one["labels"]["service"] for one in found}
    assert services == {monitored.monitors[one]["metadata"]["name"] for one in COMPONENTS}


async def test_every_rule_is_evaluated(monitored: Monitored) -> None:
    """The bridge is not there, and Prometheus says so; the others are."""

    async def rules() -> dict[str, dict[str, Any]]:
        groups = (await monitored.prometheus.get("rules"))["groups"]
        return {rule["name"]: rule for group in groups for rule in group["rules"]}

    def judged(found: Mapping[str, Mapping[str, Any]]) -> bool:
        return all(rule["health"] != "unknown" for rule in found.values())

    found = await until(rules, judged, "rules that were evaluated")
    wrong = {
        name: rule.get("lastError")
        for name, rule in found.items()
        if rule["health"] != "ok" or rule.get("lastError")
    }
    assert wrong == {}
    assert set(found) == {rule["alert"] for group in monitored.groups for rule in group["rules"]}

    def settled(found: Mapping[str, Mapping[str, Any]]) -> bool:
        down = {name for name, rule in found.items() if rule["state"] != "inactive"}
        return {name for name in down if name.endswith("Down")} == {"TrainerBridgeDown"}

    await until(rules, settled, "targets that the alerts find by their labels")


async def test_every_query_of_the_dashboard_is_answered(monitored: Monitored) -> None:
    queries = [asked(target["expr"]) for panel in panels() for target in panel["targets"]]
    assert len(queries) > 40
    now = time.time()
    for query in queries:
        await monitored.prometheus.query(query)
        await monitored.prometheus.get(
            "query_range", query=query, start=str(now - 300), end=str(now), step="15"
        )


async def test_the_dashboard_finds_the_namespace(monitored: Monitored) -> None:
    (variable,) = (one for one in dashboard()["templating"]["list"] if one["name"] == "namespace")
    found = re.fullmatch(r"label_values\((.+), namespace\)", variable["query"])
    assert found is not None

    async def namespaces() -> list[str]:
        told = await monitored.prometheus.get("label/namespace/values", **{"match[]": found[1]})
        return list(told)

    await until(namespaces, lambda told: told == [stack.NAMESPACE], "the release's namespace")


async def test_an_episode_moves_the_dashboard(
    monitored: Monitored, shared: Episodes, image: str, model: dict[str, object]
) -> None:
    """The first Episode makes the series, the second one moves them: a rate needs both."""
    (task,) = held_out_tasks(1)
    spec = scripted(
        image,
        agent={"kind": "Model", "toolsets": ["terminal"], "maxTurns": 4},
        model={**model, "sampling": {"temperature": 0, "maxTokens": 96}},
        task={"image": image, "instruction": task["instruction"], "workdir": "/workspace"},
    )
    queries = {
        panel["title"]: asked(panel["targets"][0]["expr"])
        for panel in panels()
        if panel["title"] in MOVED
    }
    assert queries.keys() == MOVED.keys()
    for name in ("first", "second"):
        ended = await shared.run(name, spec)
        assert ended.verdict == ("Passed", 1, "TestsPassed")
        for title, query in queries.items():
            await until(
                partial(monitored.prometheus.query, query),
                partial(shows, MOVED[title], moved=name == "second"),
                f"data of {title}",
            )


def shows(labels: Mapping[str, str], found: Sequence[Sample], *, moved: bool) -> bool:
    """Whether a series with these labels is there and, if asked for, is above zero."""
    return any(labels.items() <= one.items() and (value > 0 or not moved) for one, value in found)
