"""The faults: what each does, and at which moment of an Episode."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from episode_operator.api.episode import Episode
from episode_operator.api.reasons import Phase
from episode_operator.kube.client import PODS, KubernetesClient, NotFoundError
from tests.cluster import kubectl, node, operator_process
from tests.testbed import stack

TAINT = "chaos.episodes.dev/evict"
TOLERATION = {"key": TAINT, "operator": "Exists"}
_HOG = "case $(hostname) in *-a0) tail /dev/zero;; esac"
_OPERATOR = f"app.kubernetes.io/instance={stack.RELEASE},app.kubernetes.io/component=operator"
_POD_SECONDS = 5.0
_KILLS_OF_A_POD = 1
"""After more the kubelet waits before it starts the container again."""


class MissedError(Exception):
    """The moment had passed: nothing was done."""


@dataclass(frozen=True)
class World:
    """What the faults act on."""

    client: KubernetesClient
    namespace: str


Strike = Callable[[World, Episode], Awaitable[None]]
Spec = dict[str, Any]


async def _nothing(_world: World, _episode: Episode) -> None:
    """For Episodes that others' faults may hit, or that bring their own."""


async def _delete_pod(world: World, episode: Episode) -> None:
    name = _pod_of(episode)
    try:
        async with asyncio.timeout(_POD_SECONDS):  # its name is known before it is there
            while (pod := await world.client.get(PODS, world.namespace, name)) is None:
                await asyncio.sleep(0.1)
    except TimeoutError as error:
        raise MissedError(f"pod {name} is gone") from error
    await world.client.delete(PODS, world.namespace, name, uid=pod["metadata"]["uid"])


async def _evict(world: World, episode: Episode) -> None:
    """Through the API, as a drain does it."""
    pod = _pod_of(episode)
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": world.namespace},
    }
    path = PODS.path(world.namespace, pod, "eviction")
    try:
        await world.client.request("POST", path, body=body)
    except NotFoundError as error:
        raise MissedError(f"pod {pod} is gone") from error


async def _taint(world: World, episode: Episode) -> None:
    """A NoExecute taint that only this Episode's pod does not tolerate."""
    pod = _pod_of(episode)
    await _let_others_tolerate(world)
    (host,) = await kubectl.items("nodes", namespace="default")
    name = host["metadata"]["name"]
    if await world.client.get(PODS, world.namespace, pod) is None:
        raise MissedError(f"pod {pod} is gone")
    await kubectl.check("taint", "node", name, f"{TAINT}=:NoExecute", "--overwrite")
    try:
        async with asyncio.timeout(60):
            while await world.client.get(PODS, world.namespace, pod) is not None:
                await asyncio.sleep(0.2)
    finally:
        await kubectl.check("taint", "node", name, f"{TAINT}:NoExecute-")


async def _let_others_tolerate(world: World) -> None:
    """The cluster's own pods, and the operator; the other Episodes' pods do by their spec."""
    answer = await world.client.request("GET", "/api/v1/pods")
    for pod in answer["items"]:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        tolerations = pod["spec"].get("tolerations", [])
        if namespace == world.namespace or any(t.get("key") == TAINT for t in tolerations):
            continue
        with suppress(NotFoundError):  # it has ended meanwhile
            await world.client.request(
                "PATCH",
                PODS.path(namespace, name),
                body={"spec": {"tolerations": [*tolerations, TOLERATION]}},
                content_type="application/merge-patch+json",
            )


async def _cut_session(_world: World, episode: Episode) -> None:
    """The exec connection between the operator and the runner."""
    assert episode.status.pod_uid is not None  # it runs
    try:
        await node.cut_session(episode.status.pod_uid)
    except TimeoutError as error:
        raise MissedError(f"no session with {episode.status.pod_name}") from error


async def _kill_operator(_world: World, _episode: Episode) -> None:
    (pod,) = await kubectl.items("pods", namespace=stack.NAMESPACE, selector=_OPERATOR)
    if pod["status"]["containerStatuses"][0]["restartCount"] > _KILLS_OF_A_POD:
        await _replace_operator()
    await operator_process.kill()


async def _delete_operator(_world: World, _episode: Episode) -> None:
    await _replace_operator()


async def _replace_operator() -> None:
    namespace = ("-n", stack.NAMESPACE)
    await kubectl.check("delete", "pod", "-l", _OPERATOR, *namespace, "--force", "--grace-period=0")
    await kubectl.check(
        "rollout", "status", f"deployment/{stack.RELEASE}", *namespace, "--timeout=120s"
    )


def _crash(daemon: str) -> Strike:
    async def strike(_world: World, _episode: Episode) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.testbed.restart", daemon
        )
        assert await process.wait() == 0, f"{daemon} did not come back"

    return strike


def _same(_spec: Spec) -> None:
    """The Episode as it is."""


def _out_of_memory(spec: Spec) -> None:
    """Use up the memory of the first pod, before or in the middle of the agent's work."""
    spec["sandbox"] = {**spec.get("sandbox", {}), "resources": {"memory": "128Mi"}}
    script = spec["agent"].get("script") or (spec["steps"][0]["script"] if "steps" in spec else [])
    if script:
        arguments = script[0]["arguments"]
        arguments["command"] = f"{_HOG}; {arguments['command']}"
    else:
        spec["task"]["setup"] = {"script": _HOG}


def _pod_of(episode: Episode) -> str:
    if episode.status.pod_name is None or episode.status.finished:
        raise MissedError(f"{episode.name} has no pod")
    return episode.status.pod_name


@dataclass(frozen=True)
class Fault:
    """`strike` is done to an Episode in phase `at`; `change` prepares its spec.

    `alone`: it concerns the whole cluster, so no other of that kind is under way meanwhile.
    `on_this_machine`: it needs the daemons or the processes of the built-in cluster.
    """

    name: str
    at: Phase
    strike: Strike
    change: Callable[[Spec], None] = _same
    alone: bool = False
    on_this_machine: bool = False

    @property
    def tolerated(self) -> bool:
        """Whether the Episode's pods stay when the node is tainted."""
        return self.strike is not _taint


FAULTS: tuple[Fault, ...] = (
    Fault("none", Phase.RUNNING, _nothing),
    Fault("pod deleted while it starts", Phase.STARTING, _delete_pod),
    Fault("pod deleted while the agent acts", Phase.RUNNING, _delete_pod),
    Fault("pod deleted while it is verified", Phase.VERIFYING, _delete_pod),
    Fault("pod evicted", Phase.RUNNING, _evict),
    Fault("node tainted", Phase.RUNNING, _taint, alone=True),
    Fault("out of memory", Phase.RUNNING, _nothing, change=_out_of_memory),
    Fault("session cut while the agent acts", Phase.RUNNING, _cut_session, on_this_machine=True),
    Fault("session cut while it is verified", Phase.VERIFYING, _cut_session, on_this_machine=True),
    Fault("operator killed", Phase.RUNNING, _kill_operator, alone=True, on_this_machine=True),
    Fault("operator deleted", Phase.VERIFYING, _delete_operator, alone=True),
    Fault(
        "API server crashed",
        Phase.RUNNING,
        _crash("kube-apiserver"),
        alone=True,
        on_this_machine=True,
    ),
    Fault(
        "containerd crashed", Phase.RUNNING, _crash("containerd"), alone=True, on_this_machine=True
    ),
    Fault("kubelet crashed", Phase.RUNNING, _crash("kubelet"), alone=True, on_this_machine=True),
)
