"""Faults of the cluster are never a reward: a fresh pod, then NoVerdict with the reason."""

import asyncio

import pytest

from episode_operator.kube.client import PODS
from tests.cluster import kubectl
from tests.cluster.episodes import Ended, Episodes, scripted, terminal

HOG = "python3 -c 'x = bytearray(512 << 20); print(len(x))'"


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


async def test_a_container_that_dies_is_retried_then_given_up(
    episodes: Episodes, busybox: str
) -> None:
    task = {"image": busybox, "instruction": "x", "workdir": "/etc/passwd/nowhere"}
    ended = await episodes.run(
        "dead",
        scripted(busybox, task=task, sandbox={"startDeadlineSeconds": 20}, infraRetryLimit=1),
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
