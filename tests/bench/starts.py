"""The ways to start: each from the request to create something to its being of use."""

import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from episode_operator.api.episode import Episode
from episode_operator.api.labels import EPISODE_NAME
from episode_operator.kube.client import EPISODES, PODS, KubernetesClient
from episode_operator.lifecycle.pods import MAIN_CONTAINER
from episode_operator.sandbox.network import Cluster, probe_address, wait_until_closed
from episode_operator.sandbox.policy import policies
from episode_operator.sandbox.session import Session
from tests.bench.pod import episode, pod_manifest
from tests.bench.pod_watch import PodWatch
from tests.bench.started import StartedPods
from tests.bench.target import Target
from tests.cluster.episodes import Episodes, is_ready, scripted, terminal
from tests.testbed.errors import TestbedError

PLAIN, SESSION, CLOSED, OPERATOR = "plain", "session", "closed", "operator"
TITLES = {
    PLAIN: "plain pod, Ready seen",
    SESSION: "sandbox, first command",
    CLOSED: "the same, cut off before it",
    OPERATOR: "Episode by the operator, first command",
}
READY, RUNNING, ATTACHED, CUT_OFF, COMMAND = "Ready", "Running", "session", "cut off", "command"

_GRACE_SECONDS = 1
_TIME = re.compile(r"\b\d{10}\.\d+\b")

Start = dict[str, float]
"""What was seen on the way, by name: seconds since the request was sent. The last is the end."""


@dataclass(frozen=True)
class Way:
    """How to start something of a name, and how to be rid of it again."""

    begin: Callable[[str], Awaitable[Start]]
    remove: Callable[[str], Awaitable[None]]


@dataclass(frozen=True)
class Starts:
    """All ways, in one namespace that is watched."""

    client: KubernetesClient
    http: aiohttp.ClientSession
    watch: PodWatch
    started: StartedPods
    namespace: str
    target: Target
    cluster: Cluster

    def ways(self, *, operator: bool) -> dict[str, Way]:
        """By name; `operator`: there is one in the cluster."""
        found = {
            PLAIN: Way(self._plain, self._remove_pod),
            SESSION: Way(self._session, self._remove_pod),
            CLOSED: Way(self._closed, self._remove_closed),
        }
        return found | ({OPERATOR: Way(self._operator, self._remove_episode)} if operator else {})

    async def _plain(self, name: str) -> Start:
        manifest = plain(pod_manifest(self._episode(name), self.target))
        begin = time.perf_counter()
        pod = await self.client.create(PODS, manifest)
        ready = await self.watch.until(pod["metadata"]["name"], is_ready)
        return {READY: ready - begin}

    async def _session(self, name: str) -> Start:
        return await self._first_command(self._episode(name), None)

    async def _closed(self, name: str) -> Start:
        made = self._episode(name)
        for resource, policy in policies(made, self.cluster):
            del policy["metadata"]["ownerReferences"]
            await self.client.create(resource, policy)
        closed = probe_address(made.spec.sandbox.network, self.cluster)
        return await self._first_command(made, closed)

    async def _first_command(self, made: Episode, closed: str | None) -> Start:
        """As the operator does it. `closed`: an address to be cut off from first."""
        manifest = pod_manifest(made, self.target)
        begin = time.perf_counter()
        pod = await self.client.create(PODS, manifest)
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        start = {RUNNING: await self.started.until(name) - begin}
        async with Session.to_pod(
            self.client.connection,
            self.http,
            namespace=self.namespace,
            pod=name,
            container=MAIN_CONTAINER,
            pod_uid=uid,
        ) as session:
            start[ATTACHED] = time.perf_counter() - begin
            if closed is not None:
                await wait_until_closed(session, closed)
                start[CUT_OFF] = time.perf_counter() - begin
            result = await session.exec(["true"], timeout_seconds=60)
            start[COMMAND] = time.perf_counter() - begin
        if result.exit_code != 0:
            raise TestbedError(f"the first command in {name} failed: {result}")
        return start

    async def _operator(self, name: str) -> Start:
        """The agent's first command tells when it ran, by the clock of its node."""
        begin = time.time()
        clock = terminal("date +%s.%N")
        episodes = Episodes(self.client, self.namespace)
        ended = await episodes.run(name, scripted(self.target.task_image, clock))
        answers = await episodes.answers(ended)
        told = _TIME.search(answers[0]) if answers else None
        if told is None:
            raise TestbedError(f"Episode {name} ended with {ended.verdict}, answers {answers}")
        return {COMMAND: float(told[0]) - begin}

    def _episode(self, name: str) -> Episode:
        return episode(self.namespace, name, self.target)

    async def _remove_pod(self, name: str) -> None:
        """Its processes are gone, too, once this returns: it is given a moment of grace."""
        for pod in await self.client.list(PODS, self.namespace, labels={EPISODE_NAME: name}):
            path = PODS.path(self.namespace, pod["metadata"]["name"])
            await self.client.request("DELETE", path, body={"gracePeriodSeconds": _GRACE_SECONDS})
            await self.watch.until(pod["metadata"]["name"], lambda seen: seen is None)

    async def _remove_closed(self, name: str) -> None:
        await self._remove_pod(name)
        for resource, policy in policies(self._episode(name), self.cluster):
            await self.client.delete(resource, self.namespace, policy["metadata"]["name"])

    async def _remove_episode(self, name: str) -> None:
        await self.client.delete(EPISODES, self.namespace, name)


def plain(manifest: dict[str, Any]) -> dict[str, Any]:
    """The same image and resources, and nothing else of a sandbox."""
    spec = manifest["spec"]
    container = next(each for each in spec["containers"] if each["name"] == MAIN_CONTAINER)
    kept = {key: container[key] for key in ("name", "image", "imagePullPolicy", "resources")}
    return {
        **manifest,
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [{**kept, "command": ["sleep", "3600"]}],
        },
    }
