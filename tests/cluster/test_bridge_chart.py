"""The chart's trainer bridge: its image, its rights, and its network are enough, and no more."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from episode_operator.api.result import Delivery, EpisodeResult
from episode_operator.kube.client import KubernetesClient
from tests.cluster import kubectl, network
from tests.cluster.episodes import Episodes, is_ready
from tests.testbed import chart

RELEASE = "feeding"
BRIDGE = f"{RELEASE}-bridge"
RUN = "chart"
SELECTOR = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component=bridge"
OWN = f"trainer-bridge-{RUN}"
TRAINER = [{"podSelector": {"matchLabels": {"app": "trainer"}}}]


@dataclass(frozen=True)
class Release:
    """The chart with nothing but a bridge, whose Episodes are in another namespace."""

    namespace: str
    episodes: str

    async def upgrade(self, mode: str, *, images: tuple[str, str]) -> None:
        """Install it, or change its mode."""
        values = yaml.safe_dump(_values(mode, self.episodes, *images))
        arguments = ["--namespace", self.namespace, "--values", "-"]
        helm = await asyncio.create_subprocess_exec(
            *("helm", "upgrade", "--install", RELEASE, str(chart.CHART), *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await helm.communicate(values.encode())
        assert helm.returncode == 0, output.decode()

    async def logs(self) -> str:
        """What the bridge has told."""
        return await kubectl.check("logs", "-n", self.namespace, "-l", SELECTOR, "--tail=-1")

    async def ready_pod(self) -> str:
        """Name of the bridge's pod once it is ready."""
        async with asyncio.timeout(300):
            while True:
                pods = await kubectl.items("pods", namespace=self.namespace, selector=SELECTOR)
                ready = [pod["metadata"]["name"] for pod in pods if is_ready(pod)]
                if ready:
                    return str(ready[0])
                await asyncio.sleep(0.5)

    async def results(self) -> list[EpisodeResult]:
        """All results of the run."""
        found = await kubectl.items("episoderesults", namespace=self.episodes)
        return [EpisodeResult.model_validate(one) for one in found]


def _values(mode: str, namespace: str, bridge: str, task: str) -> dict[str, Any]:
    """Two coding tasks in groups of two, solved by the Oracle."""
    return {
        "operator": {"enabled": False},
        "crds": {"install": False},
        "bridge": {
            "enabled": True,
            "image": bridge,
            "mode": mode,
            "config": {
                "run": RUN,
                "namespace": namespace,
                "tasks": {"builtin": "coding", "image": task, "limit": 2, "eval_split_ratio": 0},
                "episode": {"agent": {"kind": "Oracle"}},
                "env": {
                    "group_size": 2,
                    "max_num_workers": 1,
                    "ensure_scores_are_not_same": False,
                },
                "sink": {"kind": "jsonl", "folder": "/results/dataset"},
                "charts": {"use_wandb": True, "mode": "offline"},
            },
            "networkPolicy": {"from": TRAINER, "to": TRAINER},
            "extraVolumes": [{"name": "results", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "results", "mountPath": "/results"}],
        },
    }


@pytest.fixture(scope="module")
def images(image: str) -> tuple[str, str]:
    """The bridge's image, and that of the tasks."""
    return os.environ["BRIDGE_IMAGE"], image


@pytest.fixture(scope="module")
async def processed(client: KubernetesClient, images: tuple[str, str]) -> AsyncIterator[Release]:
    """A release whose bridge has made a dataset."""
    async with Episodes.in_namespace(client) as own, Episodes.in_namespace(client) as episodes:
        namespace = own.namespace
        release = Release(namespace, episodes.namespace)
        await release.upgrade("process", images=images)
        ran = await kubectl.run(
            *("wait", "job", "-n", namespace, "--all", "--for=condition=Complete"),
            "--timeout=300s",
        )
        assert ran.code == 0, await release.logs()
        yield release


async def test_a_job_makes_the_dataset_and_ends(processed: Release) -> None:
    told = await processed.logs()
    assert re.search(r"delivered\W+2\b", told)
    assert "dropped: " not in told
    for trouble in ("ERROR", "Traceback"):  # W&B's too
        assert trouble not in told
    results = await processed.results()
    assert len(results) == 4
    assert {result.status.delivery for result in results} == {Delivery.DELIVERED}
    assert {result.spec.reward for result in results} == {1.0}
    assert await kubectl.items("episodes", namespace=processed.episodes) == []


async def test_a_deployment_goes_on_where_the_job_ended(
    processed: Release, images: tuple[str, str], client: KubernetesClient
) -> None:
    namespace = processed.namespace
    await processed.upgrade("serve", images=images)
    assert await kubectl.items("jobs", namespace=namespace) == []
    pod = await processed.ready_pod()
    async with asyncio.timeout(240):
        while "groups: 3 delivered" not in await processed.logs():
            await asyncio.sleep(1)
    await _check_network(pod, Episodes(client, namespace), images[1])
    await kubectl.check("scale", f"deployment/{BRIDGE}", "--replicas=0", "-n", namespace)
    await kubectl.check("wait", "pod", pod, "-n", namespace, "--for=delete", "--timeout=300s")
    lease = await kubectl.get("lease", OWN, namespace=processed.episodes)
    assert lease["spec"]["holderIdentity"] == "", "it ended in an orderly way"


async def _check_network(bridge: str, episodes: Episodes, image: str) -> None:
    """Only the pods that the values name are reached, and only they read the metrics."""
    namespace = episodes.namespace
    trainer, other = await network.servers(episodes, image, "trainer", "other")
    assert (await _connect(bridge, f"{trainer}:8001", namespace)).code == 0
    assert "URLError" in (await _connect(bridge, f"{other}:8001", namespace)).stderr
    status = (await kubectl.get("pod", bridge, namespace=namespace))["status"]
    metrics = await _connect("trainer", f"{status['podIP']}:9090", namespace)
    assert 'trainer_bridge_groups_total{outcome="Delivered",reason=""}' in metrics.stdout
    assert "URLError" in (await _connect("other", f"{status['podIP']}:9090", namespace)).stderr


async def _connect(pod: str, address: str, namespace: str) -> kubectl.Ran:
    """Read http://ADDRESS/ in a pod."""
    read = f"urllib.request.urlopen('http://{address}', timeout=5).read().decode()"
    code = f"import urllib.request; print({read})"
    return await kubectl.run("exec", pod, "-n", namespace, "--", "python3", "-c", code)
