"""What the order of a sandbox's start rests on, on a real kubelet."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp

from episode_operator.api.episode import Episode
from episode_operator.api.reasons import NoVerdictReason
from episode_operator.controller.starts import Started, StartWatch
from episode_operator.kube.client import EVENTS, PODS, KubernetesClient, Object
from episode_operator.lifecycle.pods import MAIN_CONTAINER, view
from episode_operator.sandbox.pod import SandboxSettings, build_pod
from tests.cluster.episodes import Episodes, manifest, scripted, terminal

HOOK_SECONDS = 3
PROBE = "probe"


def sandbox(namespace: str, image: str, runner_image: str) -> Object:
    """A pod as the operator makes it, of no Episode: the sweeper would take it away."""
    made = manifest("start", namespace, scripted(image))
    made["metadata"] |= {"uid": "0" * 8, "creationTimestamp": "2026-01-01T00:00:00Z"}
    made["metadata"]["generation"] = 1
    pod = build_pod(Episode.model_validate(made), 0, SandboxSettings(runner_image))
    del pod["metadata"]["ownerReferences"], pod["metadata"]["labels"]
    return pod


async def until(
    client: KubernetesClient, pod: Object, holds: Callable[[Object], bool], seconds: float = 300
) -> Object:
    metadata = pod["metadata"]
    async with asyncio.timeout(seconds):
        while True:
            seen = await client.get(PODS, metadata["namespace"], metadata["name"])
            assert seen is not None
            if holds(seen):
                return seen
            await asyncio.sleep(0.1)


def states(pod: Object) -> dict[str, Object]:
    found = pod["status"].get("containerStatuses", [])
    return {status["name"]: status["state"] for status in found}


async def tagged(image: str) -> str:
    """An image of the registry by one of its tags, which does not say what the node resolves."""
    registry, _, repository = image.partition("@")[0].partition("/")
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://{registry}/v2/{repository}/tags/list") as answer,
    ):
        return f"{registry}/{repository}:{(await answer.json())['tags'][0]}"


def probe(namespace: str) -> Object:
    """The kubelet's event that a task's container has started, of no pod."""
    field = f"spec.containers{{{MAIN_CONTAINER}}}"
    pod = {"kind": "Pod", "name": PROBE, "namespace": namespace, "fieldPath": field}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": PROBE, "namespace": namespace},
        "involvedObject": pod,
        "type": "Normal",
        "reason": "Started",
    }


@asynccontextmanager
async def heard(client: KubernetesClient, namespace: str) -> AsyncIterator[asyncio.Queue[Started]]:
    """Starts, as the operator hears of them, once it has heard of one that was made up."""
    starts: asyncio.Queue[Started] = asyncio.Queue()
    opened = asyncio.Event()

    def hear(start: Started) -> None:
        if start.pod == PROBE:
            opened.set()
        else:
            starts.put_nowait(start)

    listening = asyncio.create_task(StartWatch(client, [namespace], hear).run())
    try:
        async with asyncio.timeout(300):
            while not opened.is_set():
                await client.create(EVENTS, probe(namespace))
                await asyncio.sleep(0.2)
        yield starts
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def test_the_task_starts_after_the_runners_hook_has_ended(
    client: KubernetesClient, namespace: str, busybox: str, runner_image: str
) -> None:
    pod = sandbox(namespace, busybox, runner_image)
    runner, task = pod["spec"]["containers"]
    slow = f"sleep {HOOK_SECONDS}; touch /.episode/installed"
    runner |= {"image": busybox, "command": ["sleep", "600"]}
    runner["lifecycle"]["postStart"]["exec"]["command"] = ["sh", "-c", slow]
    task["command"] = ["sh", "-c", "test -e /.episode/installed && sleep 600"]
    async with heard(client, namespace) as starts:
        begin = asyncio.get_running_loop().time()
        created = await client.create(PODS, pod)
        start = await asyncio.wait_for(starts.get(), 300)
        assert asyncio.get_running_loop().time() - begin > HOOK_SECONDS
    assert start.pod_uid == created["metadata"]["uid"]
    seen = await until(client, created, lambda pod: "sandbox" in states(pod) and view(pod).running)
    assert "running" in states(seen)["sandbox"]


async def test_a_runner_that_cannot_be_installed_is_what_failed(
    client: KubernetesClient, namespace: str, busybox: str, runner_image: str
) -> None:
    pod = sandbox(namespace, busybox, runner_image)
    hook = pod["spec"]["containers"][0]["lifecycle"]["postStart"]["exec"]
    hook["command"] = ["/runner", "install", "/proc/nowhere"]
    created = await client.create(PODS, pod)
    ended = await until(client, created, lambda pod: "terminated" in states(pod).get("sandbox", {}))
    failure = view(ended).failure
    assert failure is not None
    assert failure.reason is NoVerdictReason.CONTAINER_FAILED
    assert "container runner" in failure.message


async def test_a_runner_image_that_cannot_be_pulled_is_what_failed(
    client: KubernetesClient, namespace: str, busybox: str
) -> None:
    """The task's container is started all the same, finds no program, and is not started again."""
    absent = f"{busybox.partition('/')[0]}/no/such-runner:1"
    created = await client.create(PODS, sandbox(namespace, busybox, absent))
    ended = await until(client, created, lambda pod: "terminated" in states(pod).get("sandbox", {}))
    failure = view(ended).failure
    assert failure is not None
    assert failure.reason is NoVerdictReason.IMAGE_PULL_FAILED
    assert "such-runner" in failure.message


async def test_a_result_of_less_than_a_second_names_its_image(
    episodes: Episodes, busybox: str
) -> None:
    """It is over before the kubelet writes into the pod's status which image that is."""
    ended = await episodes.run("quick", scripted(await tagged(busybox), terminal("true")))
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert "@sha256:" in ended.result.spec.image


async def test_a_pod_stays_ready_while_its_episode_runs(episodes: Episodes, busybox: str) -> None:
    """The runner's container has done its work and idles."""
    await episodes.create("ready", scripted(busybox, terminal("sleep 20")))
    await episodes.until_running("ready")
    (pod,) = await episodes.pods("ready")
    assert {name: "running" in state for name, state in states(pod).items()} == {
        "runner": True,
        "sandbox": True,
    }
