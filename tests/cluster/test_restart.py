"""The operator dies at the worst moments: no command runs twice, no turn is lost, one pod."""

import asyncio

import numpy as np
import pytest

from episode_operator.api.episode import Episode
from episode_operator.kube.client import PODS, KubernetesClient
from episode_operator.model import VllmClient
from episode_operator.sandbox.network import Cluster
from episode_operator.sandbox.pod import SandboxSettings, build_pod
from episode_operator.sandbox.policy import policies
from tests.cluster import operator_process
from tests.cluster.episodes import Ended, Episodes, call, scripted, terminal

ONCE = (
    "test $(wc -l < /workspace/count) = 1 && test $(wc -l < /workspace/before) = 1 && "
    "test $(wc -l < /workspace/after) = 1 && echo 1 > /logs/verifier/reward.txt"
)

SLEEP_SECONDS = 90

pytestmark = pytest.mark.alone

Killed = dict[str, tuple[Episode, Ended]]


def model_spec(image: str, model: dict[str, object]) -> dict[str, object]:
    return scripted(
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


def specs(image: str, busybox: str, model: dict[str, object]) -> dict[str, dict[str, object]]:
    """What is under way when the operator is killed; each sleep outlasts the other starts."""
    all_a = "test $(cat /workspace/n) = cccccccccccccccccccc && echo 1 > /logs/verifier/reward.txt"
    slow_test = f"echo 1 >> once; sleep {SLEEP_SECONDS}; cat once > /logs/verifier/reward.txt"
    return {
        "command": scripted(
            busybox,
            terminal("echo 1 >> before"),
            terminal(f"echo 1 >> count; sleep {SLEEP_SECONDS}; echo slept"),
            terminal("echo 1 >> after"),
            test=ONCE,
        ),
        "verifier": scripted(
            busybox,
            verifier={"testScript": {"script": slow_test}, "timeoutSeconds": 2 * SLEEP_SECONDS},
        ),
        "patches": scripted(
            busybox,
            call("write_file", path="/workspace/n", content="a" * 20),
            call("patch", path="/workspace/n", old_string="a", new_string="ba", replace_all=True),
            terminal(f"sleep {SLEEP_SECONDS}"),
            call("patch", path="/workspace/n", old_string="ba", new_string="c", replace_all=True),
            test=all_a,
        ),
        "model-late": model_spec(image, model),
        "model-early": model_spec(image, model),
    }


@pytest.fixture(scope="module")
async def killed(shared: Episodes, image: str, busybox: str, model: dict[str, object]) -> Killed:
    """Episodes whose operator was killed at their worst moments: as they were then, and ended."""
    await operator_process.renew()
    made = specs(image, busybox, model)
    await asyncio.gather(*(shared.create(name, made[name]) for name in made if "model" not in name))
    await asyncio.gather(
        shared.until_running("command"),
        shared.until_running("patches"),
        shared.until("verifier", lambda e: e.status.phase == "Verifying"),
    )
    models = ("model-late", "model-early")
    for name in models:
        await shared.create(name, made[name])
        await asyncio.sleep(1.5)
    await asyncio.gather(
        *(shared.until(name, lambda e: e.status.phase == "Running") for name in models)
    )
    running = {name: await shared.get(name) for name in made}
    await operator_process.kill()
    ended = await asyncio.gather(*(shared.finish(name) for name in made))
    return {name: (running[name], end) for name, end in zip(made, ended, strict=True)}


@pytest.mark.parametrize(
    ("name", "phases"),
    [
        ("command", {"Running"}),
        ("verifier", {"Verifying"}),
        ("patches", {"Running"}),
        ("model-late", {"Running", "Verifying", "Finished"}),  # the model may be quick
        ("model-early", {"Running", "Verifying"}),
    ],
)
async def test_sigkill(killed: Killed, name: str, phases: set[str]) -> None:
    """In the same pod, and what was done once is not done again: a patch would fail or hit more."""
    running, ended = killed[name]
    assert running.status.phase in phases
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert ended.episode.status.attempts == []
    assert ended.result.spec.pod_uid == running.status.pod_uid


async def test_sigkill_in_the_middle_of_a_command(killed: Killed, shared: Episodes) -> None:
    _, ended = killed["command"]
    assert ended.result.spec.counts.turns == 3
    assert await shared.answers(ended) == [
        "[no output, exit code 0]",
        "slept\n",
        "[no output, exit code 0]",
    ]


@pytest.mark.parametrize("name", ["model-late", "model-early"])
async def test_sigkill_while_the_model_works(
    killed: Killed, shared: Episodes, model: dict[str, object], vllm_url: str, name: str
) -> None:
    """The row is still exact: every sampled id has the logprob that vLLM gives it again."""
    row = await shared.row(killed[name][1])
    async with VllmClient.open(vllm_url, str(model["name"])) as vllm:
        scored = await vllm.score(row.tokens.tolist())
    sampled = row.mask[1:]
    assert sampled.any()
    np.testing.assert_allclose(scored[sampled], row.logprobs[1:][sampled], atol=2e-3)


async def test_a_pod_created_just_before_the_operator_died_is_adopted(
    episodes: Episodes, client: KubernetesClient, busybox: str, runner_image: str
) -> None:
    """cases.md 5: created, but not yet in the status."""
    async with operator_process.stopped():
        episode = await episodes.create("adopted", scripted(busybox))
        await client.create(*policies(episode, Cluster(()))[0])
        body = build_pod(episode, 0, SandboxSettings(runner_image=runner_image))
        created = await client.create(PODS, body)
    ended = await episodes.finish("adopted")
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert ended.result.spec.pod_uid == created["metadata"]["uid"]
    assert ended.episode.status.attempts == []


async def test_an_episode_can_be_deleted_without_an_operator(
    episodes: Episodes, busybox: str
) -> None:
    await episodes.create("orphan", scripted(busybox, terminal("sleep 300")))
    await episodes.until_running("orphan")
    async with operator_process.stopped():
        await episodes.client.request(
            "DELETE", f"/apis/episodes.dev/v1alpha1/namespaces/{episodes.namespace}/episodes/orphan"
        )
        async with asyncio.timeout(60):
            while await episodes.pods("orphan"):
                await asyncio.sleep(0.5)
