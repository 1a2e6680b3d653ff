"""Faults of the cluster are never a reward: a fresh pod, then NoVerdict with the reason."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from episode_operator.api.episode import Episode
from episode_operator.kube.client import PODS
from tests.cluster import kubectl
from tests.cluster.episodes import Ended, Episodes, scripted, terminal
from tests.testbed import processes

HOG = "python3 -c 'x = bytearray(512 << 20); print(len(x))'"


async def delete_pod(episodes: Episodes, name: str) -> None:
    (pod,) = await episodes.pods(name)
    await episodes.client.delete(PODS, episodes.namespace, pod["metadata"]["name"])


@asynccontextmanager
async def silent(daemon: str) -> AsyncIterator[None]:
    """A daemon of the testbed's node that is stopped, as on a node that hangs."""
    process = processes.find_part(daemon, daemon)
    assert process is not None, f"{daemon} does not run on this machine"
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


@asynccontextmanager
async def priority_class(name: str) -> AsyncIterator[str]:
    await kubectl.check("create", "priorityclass", name, "--value=1000")
    try:
        yield name
    finally:
        await kubectl.check("delete", "priorityclass", name)


def important_pod(image: str, priority: str, *, cpu: str) -> dict[str, Any]:
    container = {
        "name": "important",
        "image": image,
        "command": ["/bin/sleep", "600"],
        "resources": {"requests": {"cpu": cpu}},
    }
    spec = {"priorityClassName": priority, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "important"}, "spec": spec}


def reasons(ended: Ended) -> list[str]:
    return [attempt.reason for attempt in ended.episode.status.attempts]


async def test_image_that_does_not_exist(episodes: Episodes, busybox: str) -> None:
    """cases.md 7: inside the start deadline, and the pods are deleted."""
    registry = busybox.partition("/")[0]
    ended = await episodes.run(
        "no-image",
        scripted(
            f"{registry}/no/such-image:1",
            sandbox={"startDeadlineSeconds": 60},
            infraRetryLimit=1,
        ),
    )
    assert ended.verdict == ("NoVerdict", None, "ImagePullFailed")
    assert reasons(ended) == ["ImagePullFailed"]
    assert "such-image" in ended.result.spec.message
    assert await episodes.pods("no-image") == []
    finished = ended.episode.status.completion_time
    assert finished is not None
    assert (finished - ended.episode.created).total_seconds() < 2 * 60


@pytest.mark.parametrize(
    ("fields", "reason", "words"),
    [
        ({"sandbox": {"nodeSelector": {"no-such": "node"}}}, "Unschedulable", "or add nodes"),
        ({}, "ImagePullFailed", "localhost:9/no/image:1"),
    ],
    ids=["no node fits", "the registry does not answer"],
)
async def test_what_holds_a_pod_up_is_told_while_it_waits(
    episodes: Episodes, fields: dict[str, Any], reason: str, words: str
) -> None:
    def told(episode: Episode) -> bool:
        return any(each.reason == reason for each in episode.status.conditions)

    await episodes.create("waiting", scripted("localhost:9/no/image:1", **fields))
    seen = await episodes.until("waiting", told, seconds=180)
    (condition,) = seen.status.conditions
    assert seen.status.phase == "Starting"
    assert condition.type == "SandboxReady" and words in condition.message


async def test_out_of_memory_is_never_graded(episodes: Episodes, image: str) -> None:
    """cases.md 8: OOMKilled is recorded, and each attempt has a fresh file system."""
    ended = await episodes.run(
        "oom",
        scripted(
            image,
            terminal("test ! -e marker && touch marker"),
            terminal(HOG),
            sandbox={"resources": {"memory": "128Mi"}},
            infraRetryLimit=1,
        ),
    )
    assert ended.verdict == ("NoVerdict", None, "OOMKilled")
    assert reasons(ended) == ["OOMKilled"]
    first = ended.episode.status.attempts[0].pod_uid
    assert first is not None
    assert first != ended.episode.status.pod_uid


async def test_a_deleted_pod_is_retried_on_a_fresh_one(episodes: Episodes, busybox: str) -> None:
    await episodes.create("lost", scripted(busybox, terminal("sleep 8; echo done > out")))
    running = await episodes.until_running("lost")
    (pod,) = await episodes.pods("lost")
    await kubectl.check(
        "delete", "pod", pod["metadata"]["name"], "-n", episodes.namespace, "--wait=false"
    )
    ended = await episodes.finish("lost")
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert reasons(ended) == ["PodLost"]
    assert ended.episode.status.attempts[0].pod_uid == running.status.pod_uid
    assert ended.result.spec.pod_uid != running.status.pod_uid
    events = await kubectl.items("events", namespace=episodes.namespace)
    lost = [e for e in events if e["reason"] == "PodLost" and e["type"] == "Warning"]
    assert any(running.status.pod_uid in event["message"] for event in lost)


@pytest.mark.parametrize("phase", ["Starting", "Verifying"])
async def test_a_pod_deleted_in_another_phase(episodes: Episodes, busybox: str, phase: str) -> None:
    test = "sleep 3; echo 1 > /logs/verifier/reward.txt"
    await episodes.create("lost", scripted(busybox, test=test))
    await episodes.until("lost", lambda e: e.status.phase == phase and e.status.pod_uid is not None)
    await delete_pod(episodes, "lost")
    ended = await episodes.finish("lost")
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert set(reasons(ended)) <= {"PodLost"}, "a pod may run before it can be deleted"


async def test_retries_wait_longer_each_time(episodes: Episodes, busybox: str) -> None:
    spec = scripted(busybox, terminal("sleep 60"), infraRetryLimit=2)
    await episodes.create("again", spec)
    pauses = []
    for attempt in (1, 2):
        await episodes.until_running("again")
        await delete_pod(episodes, "again")
        waiting = await episodes.until("again", partial(reached, attempt))
        condition = next(c for c in waiting.status.conditions if c.type == "SandboxReady")
        assert waiting.status.retry_time is not None
        pauses.append((waiting.status.retry_time - condition.last_transition_time).total_seconds())
    assert pauses[1] == 2 * pauses[0] > 0


def reached(attempt: int, episode: Episode) -> bool:
    return episode.status.attempt == attempt


async def test_evicted_through_the_api(episodes: Episodes, busybox: str) -> None:
    await episodes.create("evicted", scripted(busybox, terminal("sleep 60"), infraRetryLimit=0))
    await episodes.until_running("evicted")
    (pod,) = await episodes.pods("evicted")
    name = pod["metadata"]["name"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": episodes.namespace},
    }
    path = PODS.path(episodes.namespace, name, "eviction")
    await episodes.client.request("POST", path, body=eviction)
    ended = await episodes.finish("evicted")
    assert ended.verdict == ("NoVerdict", None, "Evicted")


@pytest.mark.alone
async def test_preempted(episodes: Episodes, busybox: str) -> None:
    node = (await kubectl.items("nodes", namespace=episodes.namespace))[0]
    cpu = str(int(node["status"]["allocatable"]["cpu"]) * 600)
    resources = {"cpu": f"{cpu}m", "cpuRequest": f"{cpu}m"}
    spec = scripted(busybox, terminal("sleep 60"), infraRetryLimit=0)
    await episodes.create("preempted", {**spec, "sandbox": {"resources": resources}})
    await episodes.until_running("preempted")
    async with priority_class(episodes.namespace) as priority:
        await kubectl.apply(
            important_pod(busybox, priority, cpu=f"{cpu}m"), namespace=episodes.namespace
        )
        ended = await episodes.finish("preempted")
    assert ended.verdict == ("NoVerdict", None, "Preempted")


async def test_the_pods_own_deadline(episodes: Episodes, busybox: str) -> None:
    """As if no operator had run for long: the kubelet ends the pod."""
    await episodes.create("overdue", scripted(busybox, terminal("sleep 60"), infraRetryLimit=0))
    await episodes.until_running("overdue")
    (pod,) = await episodes.pods("overdue")
    patch = '{"spec": {"activeDeadlineSeconds": 1}}'
    name, namespace = pod["metadata"]["name"], episodes.namespace
    await kubectl.check("patch", "pod", name, "-n", namespace, "-p", patch)
    ended = await episodes.finish("overdue")
    assert ended.verdict == ("NoVerdict", None, "PodDeadlineExceeded")


@pytest.mark.alone
async def test_a_lost_node(episodes: Episodes, busybox: str) -> None:
    """The kubelet is silent; when it is back, a fresh pod passes."""
    lost = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    ]
    sandbox = {"tolerations": lost}
    spec = scripted(busybox, terminal("sleep 5"), sandbox=sandbox, infraRetryLimit=6)
    await episodes.create("node", spec)
    await episodes.until_running("node")
    async with silent("kubelet"):
        await episodes.until("node", lambda e: e.status.attempt == 1)
    ended = await episodes.finish("node")
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert reasons(ended)[0] == "NodeLost", "pods may be lost again until the node is ready"


async def test_a_container_that_dies_is_retried_then_given_up(
    episodes: Episodes, busybox: str
) -> None:
    task = {"image": busybox, "instruction": "x", "workdir": "/etc/passwd/nowhere"}
    ended = await episodes.run(
        "dead",
        scripted(busybox, task=task, infraRetryLimit=1),
    )
    assert ended.verdict == ("NoVerdict", None, "ContainerFailed")
    assert reasons(ended) == ["ContainerFailed"]
    assert ended.result.spec.message


async def test_unschedulable(episodes: Episodes, busybox: str) -> None:
    ended = await episodes.run(
        "nowhere",
        scripted(
            busybox,
            sandbox={"nodeSelector": {"no-such": "node"}, "startDeadlineSeconds": 5},
            infraRetryLimit=0,
        ),
    )
    assert ended.verdict == ("NoVerdict", None, "Unschedulable")
    assert "node" in ended.result.spec.message


@pytest.mark.parametrize("path", ["", "/nowhere"])
async def test_model_server_that_is_not_there(
    episodes: Episodes, busybox: str, model: dict[str, object], path: str
) -> None:
    """A wrong model name is not retried; it ends at once with the names there are."""
    ended = await episodes.run(
        f"no-model{path.replace('/', '-')}",
        scripted(
            busybox,
            agent={"kind": "Model", "toolsets": ["terminal"]},
            model={**model, "name": f"missing{path}"},
        ),
    )
    assert ended.verdict == ("NoVerdict", None, "ModelNotFound")
    assert str(model["name"]) in ended.result.spec.message


async def test_the_episode_deadline_ends_everything(episodes: Episodes, busybox: str) -> None:
    ended = await episodes.run(
        "late",
        scripted(
            busybox,
            agent={
                "kind": "Scripted",
                "script": [terminal("true")],
                "timeoutSeconds": 4,
                "toolTimeoutSeconds": 2,
            },
            verifier={"testScript": {"script": "true"}, "timeoutSeconds": 2},
            sandbox={"nodeSelector": {"no-such": "node"}},
            activeDeadlineSeconds=6,
        ),
    )
    assert ended.verdict == ("NoVerdict", None, "DeadlineExceeded")
    assert await episodes.client.list(PODS, episodes.namespace, labels={}) == []


async def test_an_agent_out_of_time_is_graded(episodes: Episodes, busybox: str) -> None:
    """cases.md 3: the command's whole process group is gone when the verifier runs."""
    agent = {
        "kind": "Scripted",
        "script": [
            terminal("echo ok > out; yes > /dev/null", timeout=1),
            terminal("sleep 60 & yes > /dev/null"),
            terminal("echo never > out"),
        ],
        "timeoutSeconds": 4,
        "toolTimeoutSeconds": 3,
    }
    test = "grep -q ok out && ! pidof yes && ! pidof sleep && echo 1 > /logs/verifier/reward.txt"
    ended = await episodes.run("slow", scripted(busybox, agent=agent, test=test))
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert ended.result.spec.agent_end == "AgentTimeout"


async def test_many_at_once_and_one_deleted(episodes: Episodes, busybox: str) -> None:
    """cases.md 6, smaller: all progress, the delete is handled at once."""
    names = [f"many-{index}" for index in range(12)]
    for name in names:
        await episodes.create(name, scripted(busybox, terminal("sleep 5")))
    await episodes.until_running(names[0])
    await kubectl.check("delete", "episode", names[-1], "-n", episodes.namespace, "--timeout=20s")
    ended = await asyncio.gather(*(episodes.finish(name) for name in names[:-1]))
    assert {e.verdict for e in ended} == {("Passed", 1, "TestsPassed")}
