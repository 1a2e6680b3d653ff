"""The chart is upgraded while Episodes run: none is lost, and nothing is done twice."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import kubectl
from tests.cluster.episodes import Episodes, is_ready
from tests.cluster.held import finish, start
from tests.testbed import chart
from tests.testbed.stack import ROOT

REPLICAS = 2
_GONE_SECONDS = 120.0


@dataclass(frozen=True)
class Release:
    """A release whose operator has the Episodes of its own namespace."""

    name: str
    namespace: str

    async def upgrade(self, folder: Path, values: Mapping[str, Any]) -> None:
        """Install it, or go over to another chart or other values."""
        await asyncio.to_thread(
            chart.install,
            self.name,
            self.namespace,
            values,
            deployments=[self.name],
            env=os.environ,
            say=print,
            folder=folder,
        )

    async def pods(self) -> set[str]:
        """Its operator's pods that are ready."""
        selector = f"app.kubernetes.io/instance={self.name},app.kubernetes.io/component=operator"
        found = await kubectl.items("pods", namespace=self.namespace, selector=selector)
        return {pod["metadata"]["name"] for pod in found if is_ready(pod)}


@asynccontextmanager
async def released(episodes: Episodes) -> AsyncIterator[Release]:
    release = Release(f"upgraded-{episodes.namespace[-8:]}", episodes.namespace)
    try:
        yield release
    finally:
        uninstall = ["helm", "uninstall", release.name, "-n", release.namespace]
        await asyncio.to_thread(subprocess.run, uninstall, check=False)


def previous_chart(folder: Path) -> Path:
    """The chart of the commit before this one; of this one where the clone has no other."""
    git = ["git", "-C", str(ROOT)]
    known = subprocess.run(
        [*git, "rev-parse", "--verify", "--quiet", "HEAD~1"], check=False, capture_output=True
    )
    commit = "HEAD~1" if known.returncode == 0 else "HEAD"
    path = chart.CHART.relative_to(ROOT)
    archive = subprocess.run([*git, "archive", commit, str(path)], check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder / path


async def test_episodes_that_run_outlive_the_upgrade(
    unwatched: Episodes, busybox: str, runner_image: str, tmp_path: Path
) -> None:
    """Two replicas of the previous commit's chart; one is killed, then the chart is upgraded."""
    operator = {
        "image": os.environ["OPERATOR_IMAGE"],
        "runnerImage": runner_image,
        "replicas": REPLICAS,
        "watchNamespaces": [unwatched.namespace],
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
    }
    values: dict[str, Any] = {"operator": operator, "crds": {"install": False}}
    previous = await asyncio.to_thread(previous_chart, tmp_path)
    async with released(unwatched) as release:
        await release.upgrade(previous, values)
        running = await start(unwatched, busybox)
        before = await release.pods()
        assert len(before) == REPLICAS
        killed = min(before)
        await kubectl.check(
            *("delete", "pod", killed, "-n", release.namespace, "--grace-period=0", "--force")
        )
        await release.upgrade(
            chart.CHART, {**values, "operator": {**operator, "logLevel": "warning"}}
        )
        async with asyncio.timeout(_GONE_SECONDS):
            while before & (after := await release.pods()):
                await asyncio.sleep(0.5)
        assert len(after) == REPLICAS
        await finish(unwatched, running)
