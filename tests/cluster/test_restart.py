"""The operator dies at the worst moments: no command runs twice, no turn is lost, one pod."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from episode_operator.api.episode import Episode
from episode_operator.kube.client import EPISODES, PODS, KubernetesClient
from episode_operator.lifecycle.pods import MAIN_CONTAINER
from episode_operator.model import VllmClient
from episode_operator.sandbox.network import Cluster
from episode_operator.sandbox.pod import SandboxSettings, build_pod
from episode_operator.sandbox.policy import policies
from tests.cluster import kubectl, node
from tests.cluster.episodes import Ended, Episodes, call, scripted, terminal
from tests.cluster.local_operator import LocalOperator, operating

ONCE = (
    "test $(wc -l < /workspace/count) = 1 && test $(wc -l < /workspace/before) = 1 && "
    "test $(wc -l < /workspace/after) = 1 && echo 1 > /logs/verifier/reward.txt"
)

GATE = "/workspace/gate"
WAIT = f"until test -e {GATE}; do sleep 0.2; done"
"""What is under way when the operator is killed ends when the file is there."""

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
    """What is under way when the operator is killed."""
    all_a = "test $(cat /workspace/n) = cccccccccccccccccccc && echo 1 > /logs/verifier/reward.txt"
    slow_test = f"echo 1 >> once; {WAIT}; cat once > /logs/verifier/reward.txt"
    return {
        "command": scripted(
            busybox,
            terminal("echo 1 >> before"),
            terminal(f"echo 1 >> count; {WAIT}; echo waited"),
            terminal("echo 1 >> after"),
            test=ONCE,
        ),
        "verifier": scripted(
            busybox,
            verifier={"testScript": {"script": slow_test}, "timeoutSeconds": 180},
        ),
        "patches": scripted(
            busybox,
            call("write_file", path="/workspace/n", content="a" * 20),
            call("patch", path="/workspace/n", old_string="a", new_string="ba", replace_all=True),
            terminal(WAIT),
            call("patch", path="/workspace/n", old_string="ba", new_string="c", replace_all=True),
            test=all_a,
        ),
        "model-late": model_spec(image, model),
        "model-early": model_spec(image, model),
    }


@pytest.fixture(scope="module")
async def killed(
    shared_unwatched: Episodes,
    image: str,
    busybox: str,
    local_model: dict[str, object],
    tmp_path_factory: pytest.TempPathFactory,
) -> Killed:
    """Episodes whose operator was killed at their worst moments: as they were then, and ended."""
    episodes, folder = shared_unwatched, tmp_path_factory.mktemp("operator")
    async with operating(episodes, folder) as operator:
        return await kill(episodes, operator, specs(image, busybox, local_model))


async def kill(
    episodes: Episodes, operator: LocalOperator, made: dict[str, dict[str, object]]
) -> Killed:
    waiting = [name for name in made if "model" not in name]
    await asyncio.gather(*(episodes.create(name, made[name]) for name in waiting))
    await asyncio.gather(
        episodes.until_running("command"),
        episodes.until_running("patches"),
        episodes.until("verifier", lambda e: e.status.phase == "Verifying"),
    )
    models = ("model-late", "model-early")
    for name in models:
        await episodes.create(name, made[name])
        await asyncio.sleep(1.5)
    await asyncio.gather(
        *(episodes.until(name, lambda e: e.status.phase == "Running") for name in models)
    )
    running = {name: await episodes.get(name) for name in made}
    before = {name: sessions(running[name]) for name in waiting}
    await operator.kill()
    await operator.start()
    await asyncio.gather(*(open_gate(episodes, running[name], before[name]) for name in waiting))
    ended = await asyncio.gather(*(episodes.finish(name) for name in made))
    return {name: (running[name], end) for name, end in zip(made, ended, strict=True)}


def sessions(episode: Episode) -> set[int]:
    """Processes in the Episode's pod through which an operator speaks with its runner."""
    assert episode.status.pod_uid is not None
    return set(node.processes(episode.status.pod_uid, "attach"))


async def open_gate(episodes: Episodes, episode: Episode, before: set[int]) -> None:
    """Let go on what waits, once another operator has taken the pod over."""
    async with asyncio.timeout(120):
        while not sessions(episode) - before:
            await asyncio.sleep(0.1)
    where = ("-n", episodes.namespace, str(episode.status.pod_name), "-c", MAIN_CONTAINER)
    await kubectl.check("exec", *where, "--", "touch", GATE)


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


async def test_sigkill_in_the_middle_of_a_command(
    killed: Killed, shared_unwatched: Episodes
) -> None:
    _, ended = killed["command"]
    assert ended.result.spec.counts.turns == 3
    assert await shared_unwatched.answers(ended) == [
        "[no output, exit code 0]",
        "waited\n",
        "[no output, exit code 0]",
    ]


@pytest.mark.parametrize("name", ["model-late", "model-early"])
async def test_sigkill_while_the_model_works(
    killed: Killed, shared_unwatched: Episodes, model: dict[str, object], vllm_url: str, name: str
) -> None:
    """The row is still exact: every sampled id has the logprob that vLLM gives it again."""
    row = await shared_unwatched.row(killed[name][1])
    async with VllmClient.open(vllm_url, str(model["name"])) as vllm:
        scored = await vllm.score(row.tokens.tolist())
    sampled = row.mask[1:]
    assert sampled.any()
    np.testing.assert_allclose(scored[sampled], row.logprobs[1:][sampled], atol=2e-3)


async def test_a_pod_created_just_before_the_operator_died_is_adopted(
    unwatched: Episodes, client: KubernetesClient, busybox: str, runner_image: str, tmp_path: Path
) -> None:
    """cases.md 5: created, but not yet in the status."""
    episode = await unwatched.create("adopted", scripted(busybox))
    await client.create(*policies(episode, Cluster(()))[0])
    body = build_pod(episode, 0, SandboxSettings(runner_image=runner_image))
    created = await client.create(PODS, body)
    async with operating(unwatched, tmp_path):
        ended = await unwatched.finish("adopted")
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert ended.result.spec.pod_uid == created["metadata"]["uid"]
    assert ended.episode.status.attempts == []


async def test_an_episode_can_be_deleted_without_an_operator(
    unwatched: Episodes, busybox: str, tmp_path: Path
) -> None:
    async with operating(unwatched, tmp_path):
        await unwatched.create("orphan", scripted(busybox, terminal("sleep 300")))
        await unwatched.until_running("orphan")
    await unwatched.client.delete(EPISODES, unwatched.namespace, "orphan")
    async with asyncio.timeout(60):
        while await unwatched.pods("orphan"):
            await asyncio.sleep(0.5)
