"""The operator dies at the worst moments: no command runs twice, no turn is lost, one pod."""

import asyncio

import numpy as np
import pytest

from episode_operator.kube.client import PODS, KubernetesClient
from episode_operator.model import VllmClient
from episode_operator.sandbox.network import Cluster
from episode_operator.sandbox.pod import SandboxSettings, build_pod
from episode_operator.sandbox.policy import policies
from tests.cluster import operator_process
from tests.cluster.episodes import Episodes, call, scripted, terminal

ONCE = (
    "test $(wc -l < /workspace/count) = 1 && test $(wc -l < /workspace/before) = 1 && "
    "test $(wc -l < /workspace/after) = 1 && echo 1 > /logs/verifier/reward.txt"
)

pytestmark = pytest.mark.alone


@pytest.fixture(autouse=True)
async def fresh_operator() -> None:
    """A new operator pod, so that the kubelet starts its container again without back-off."""
    await operator_process.scale(0)
    await operator_process.scale(1)


async def test_sigkill_in_the_middle_of_a_command(episodes: Episodes, busybox: str) -> None:
    await episodes.create(
        "killed",
        scripted(
            busybox,
            terminal("echo 1 >> before"),
            terminal("echo 1 >> count; sleep 20; echo slept"),
            terminal("echo 1 >> after"),
            test=ONCE,
        ),
    )
    running = await episodes.until_running("killed")
    await asyncio.sleep(4)
    await operator_process.kill()
    ended = await episodes.finish("killed")
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert ended.episode.status.attempts == []
    assert ended.result.spec.pod_uid == running.status.pod_uid
    assert ended.result.spec.counts.turns == 3
    assert await episodes.answers(ended) == [
        "[no output, exit code 0]",
        "slept\n",
        "[no output, exit code 0]",
    ]


async def test_sigkill_while_the_verifier_runs(episodes: Episodes, busybox: str) -> None:
    test = "echo 1 >> once; sleep 15; cat once > /logs/verifier/reward.txt"
    await episodes.create("verifying", scripted(busybox, test=test))
    running = await episodes.until("verifying", lambda e: e.status.phase == "Verifying")
    await asyncio.sleep(2)
    await operator_process.kill()
    ended = await episodes.finish("verifying")
    assert ended.verdict == ("Passed", 1, "TestsPassed"), "two lines mean that it ran twice"
    assert ended.result.spec.pod_uid == running.status.pod_uid


async def test_sigkill_between_patches(episodes: Episodes, busybox: str) -> None:
    """A patch is not idempotent: made twice it would fail, or hit another occurrence."""
    calls = [
        call("write_file", path="/workspace/n", content="a" * 20),
        call("patch", path="/workspace/n", old_string="a", new_string="ba", replace_all=True),
        terminal("sleep 10"),
        call("patch", path="/workspace/n", old_string="ba", new_string="c", replace_all=True),
    ]
    await episodes.create(
        "patched",
        scripted(
            busybox,
            *calls,
            test="test $(cat /workspace/n) = cccccccccccccccccccc && "
            "echo 1 > /logs/verifier/reward.txt",
        ),
    )
    await episodes.until_running("patched")
    await asyncio.sleep(3)
    await operator_process.kill()
    ended = await episodes.finish("patched")
    assert ended.verdict == ("Passed", 1, "TestsPassed")


async def test_a_pod_created_just_before_the_operator_died_is_adopted(
    episodes: Episodes, client: KubernetesClient, busybox: str, runner_image: str
) -> None:
    """cases.md 5: created, but not yet in the status."""
    await operator_process.scale(0)
    try:
        episode = await episodes.create("adopted", scripted(busybox))
        await client.create(*policies(episode, Cluster(()))[0])
        body = build_pod(episode, 0, SandboxSettings(runner_image=runner_image))
        created = await client.create(PODS, body)
    finally:
        await operator_process.scale(1)
    ended = await episodes.finish("adopted")
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert ended.result.spec.pod_uid == created["metadata"]["uid"]
    assert ended.episode.status.attempts == []


async def test_an_episode_can_be_deleted_without_an_operator(
    episodes: Episodes, busybox: str
) -> None:
    await episodes.create("orphan", scripted(busybox, terminal("sleep 300")))
    await episodes.until_running("orphan")
    await operator_process.scale(0)
    try:
        await episodes.client.request(
            "DELETE", f"/apis/episodes.dev/v1alpha1/namespaces/{episodes.namespace}/episodes/orphan"
        )
        async with asyncio.timeout(60):
            while await episodes.pods("orphan"):
                await asyncio.sleep(0.5)
    finally:
        await operator_process.scale(1)


@pytest.mark.parametrize("after_seconds", [0.5, 3.0])
async def test_sigkill_while_the_model_works(
    episodes: Episodes, image: str, model: dict[str, object], vllm_url: str, after_seconds: float
) -> None:
    """The row is still exact: every sampled id has the logprob that vLLM gives it again."""
    spec = scripted(
        image,
        task={
            "image": image,
            "workdir": "/workspace",
            "instruction": "Write the word zebra to the file /workspace/ticket.txt.",
        },
        agent={"kind": "Model", "toolsets": ["terminal"], "maxTurns": 4},
        model={**model, "sampling": {"temperature": 1.0, "maxTokens": 96}},
        test="echo 1 > /logs/verifier/reward.txt",
    )
    await episodes.create("model", spec)
    await episodes.until_running("model")
    await asyncio.sleep(after_seconds)
    await operator_process.kill()
    ended = await episodes.finish("model")
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert ended.episode.status.attempts == []
    row = await episodes.row(ended)
    async with VllmClient.open(vllm_url, str(model["name"])) as vllm:
        scored = await vllm.score(row.tokens.tolist())
    sampled = row.mask[1:]
    assert sampled.any()
    np.testing.assert_allclose(scored[sampled], row.logprobs[1:][sampled], atol=2e-3)
