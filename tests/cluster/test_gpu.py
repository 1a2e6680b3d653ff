"""The chart's vLLM gets the GPUs that it asks for, on a simulated node that has eight."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from tests.cluster import kubectl
from tests.cluster.episodes import is_ready
from tests.cluster.simulated_node import GPU, GPUS, LABELS, NAME, TAINT, simulated_node
from tests.testbed import chart

pytestmark = [pytest.mark.alone, pytest.mark.timeout(2400)]
"""Others take the only node there is for granted; and the first run builds kwok."""

RELEASE = "gpus"
EACH = 2
FIT = GPUS // EACH
TOLERATION = {"key": TAINT["key"], "operator": "Exists", "effect": TAINT["effect"]}
_WAIT_SECONDS = 300.0

Pods = Sequence[dict[str, Any]]


@pytest.fixture(scope="module", autouse=True)
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[None]:
    """The simulated node, while the tests of the module run."""
    async with simulated_node(tmp_path_factory.mktemp("kwok")):
        yield


async def install(namespace: str, *, replicas: int, tolerations: Sequence[object]) -> None:
    """The chart's Deployment of vLLM, and nothing else of the chart."""
    values = {
        "vllm": {
            "enabled": True,
            "gpus": EACH,
            "replicas": replicas,
            "nodeSelector": LABELS,
            "tolerations": list(tolerations),
        }
    }
    made = await asyncio.to_thread(chart.manifests, RELEASE, namespace, values, hooks=False)
    (deployment,) = (
        one
        for one in made
        if (one["kind"], one["metadata"]["name"]) == ("Deployment", f"{RELEASE}-vllm")
    )
    ran = await kubectl.apply(deployment, namespace=namespace)
    assert ran.code == 0, ran.stderr


async def until(namespace: str, holds: Callable[[Pods], bool], what: str) -> Pods:
    """The pods of vLLM once they are as they should be."""
    selector = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component=vllm"
    end = time.monotonic() + _WAIT_SECONDS
    while True:
        pods = await kubectl.items("pods", namespace=namespace, selector=selector)
        if holds(pods):
            return pods
        told = json.dumps([(place(pod), pod["status"]) for pod in pods])
        assert time.monotonic() < end, f"{what}, not within {_WAIT_SECONDS:.0f} s: {told}"
        await asyncio.sleep(0.3)


def place(pod: dict[str, Any]) -> str | None:
    """The node that a pod is bound to."""
    name = pod["spec"].get("nodeName")
    return None if name is None else str(name)


def unschedulable(pod: dict[str, Any]) -> str:
    """Why the scheduler finds no node for a pod; nothing if it has found one, or not looked."""
    for one in pod["status"].get("conditions", ()):
        if (one["type"], one.get("reason")) == ("PodScheduled", "Unschedulable"):
            return str(one["message"])
    return ""


async def test_as_many_servers_as_there_are_gpus_for(namespace: str) -> None:
    await install(namespace, replicas=FIT, tolerations=[TOLERATION])
    pods = await until(
        namespace, lambda pods: len(pods) == FIT and all(map(is_ready, pods)), "ready servers"
    )
    for pod in pods:
        assert place(pod) == NAME
        (container,) = pod["spec"]["containers"]
        assert container["resources"]["limits"][GPU] == str(EACH)
        assert container["resources"]["requests"][GPU] == str(EACH), "Kubernetes copies the limit"
        assert f"--tensor-parallel-size={EACH}" in container["args"]
    first = {pod["metadata"]["name"] for pod in pods}

    await install(namespace, replicas=FIT + 1, tolerations=[TOLERATION])
    pods = await until(namespace, lambda pods: any(map(unschedulable, pods)), "a server too many")
    (waiting,) = (pod for pod in pods if pod["metadata"]["name"] not in first)
    assert waiting["status"]["phase"] == "Pending"
    assert place(waiting) is None
    assert f"Insufficient {GPU}" in unschedulable(waiting)
    assert {pod["metadata"]["name"] for pod in pods if place(pod) == NAME} == first

    gone = min(first)
    await kubectl.check("delete", "pod", gone, "-n", namespace, "--wait=false")

    def taken(pods: Pods) -> bool:
        ready = {pod["metadata"]["name"] for pod in pods if is_ready(pod)}
        return len(ready) == FIT and gone not in ready

    await until(namespace, taken, "another server on the GPUs of one that is gone")


async def test_nothing_lands_there_that_does_not_tolerate_its_taint(namespace: str) -> None:
    await install(namespace, replicas=1, tolerations=[])
    (pod,) = await until(
        namespace, lambda pods: len(pods) == 1 and bool(unschedulable(pods[0])), "the refusal"
    )
    assert place(pod) is None
    assert "untolerated taint" in unschedulable(pod)
