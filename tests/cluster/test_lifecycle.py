"""The life of an Episode on a real cluster, as a Kubernetes user sees it."""

import asyncio
import json
from typing import Any

import pytest

from episode_operator.kube.client import EPISODE_RESULTS, EPISODES, NETWORK_POLICIES, PODS
from tests.cluster import kubectl
from tests.cluster.episodes import Episodes, manifest, scripted, terminal

LABEL = "episodes.dev/episode-uid"


async def test_apply_wait_get_describe(namespace: str, busybox: str) -> None:
    """The commands of the README, on a scripted Episode."""
    spec = scripted(busybox, terminal("echo hello"), terminal("false"))
    ran = await kubectl.apply(manifest("hello", namespace, spec), namespace=namespace)
    assert ran.code == 0, ran.stderr
    await kubectl.check(
        "wait", "--for=condition=Finished", "epi/hello", "-n", namespace, "--timeout=120s"
    )
    table = (await kubectl.check("get", "epi", "-n", namespace)).splitlines()
    assert table[0].split() == ["NAME", "PHASE", "VERDICT", "REWARD", "TURNS", "REASON", "AGE"]
    assert table[1].split()[:6] == ["hello", "Finished", "Passed", "1", "2", "TestsPassed"]
    results = (await kubectl.check("get", "epr", "-n", namespace)).splitlines()
    assert results[1].split()[1:6] == ["hello", "Passed", "1", "2", "0"]
    rl = await kubectl.check("get", "rl", "-n", namespace, "-o", "name")
    assert "episode.episodes.dev/hello" in rl
    assert "episoderesult.episodes.dev/" in rl
    described = await kubectl.check("describe", "episode", "hello", "-n", namespace)
    for reason in ("PodCreated", "SandboxReady", "AgentCompleted", "TestsPassed"):
        assert described.count(reason) >= 1, described
    explained = await kubectl.check("explain", "episode.spec.agent.maxTurns")
    assert "Turns after which the agent is stopped and graded" in explained


async def test_nothing_is_left_but_the_result(episodes: Episodes, busybox: str) -> None:
    ended = await episodes.run("tidy", scripted(busybox))
    assert await episodes.pods("tidy") == []
    await kubectl.check("delete", "episode", "tidy", "-n", episodes.namespace)
    name = ended.result.metadata["name"]
    stored = await episodes.client.get(EPISODE_RESULTS, episodes.namespace, name)
    assert stored is not None
    policies = await episodes.client.list(
        NETWORK_POLICIES, episodes.namespace, labels={LABEL: ended.episode.uid}
    )
    while policies:  # the garbage collector takes its time; the test's own limit ends a leak
        await asyncio.sleep(0.5)
        policies = await episodes.client.list(
            NETWORK_POLICIES, episodes.namespace, labels={LABEL: ended.episode.uid}
        )


async def test_spec_is_immutable(episodes: Episodes, busybox: str) -> None:
    await episodes.create("fixed", scripted(busybox))
    patch = json.dumps({"spec": {"agent": {"maxTurns": 3}}})
    ran = await kubectl.run(
        "patch", "episode", "fixed", "-n", episodes.namespace, "--type=merge", "-p", patch
    )
    assert ran.code != 0
    assert "spec is immutable" in ran.stderr


async def test_the_pod_is_hardened(episodes: Episodes, busybox: str) -> None:
    await episodes.create("hard", scripted(busybox, terminal("sleep 30")))
    await episodes.until_running("hard")
    (pod,) = await episodes.pods("hard")
    spec: dict[str, Any] = pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["restartPolicy"] == "Never"
    assert spec["activeDeadlineSeconds"] > 0
    assert all("serviceAccountToken" not in json.dumps(volume) for volume in spec["volumes"])
    assert [container["name"] for container in spec["containers"]] == ["runner", "sandbox"]
    for container in spec["containers"]:
        context = container["securityContext"]
        assert context["capabilities"]["drop"] == ["ALL"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["seccompProfile"]["type"] == "RuntimeDefault"
        assert {"cpu", "memory", "ephemeral-storage"} <= container["resources"]["limits"].keys()
    (owner,) = pod["metadata"]["ownerReferences"]
    assert owner["kind"] == "Episode"
    assert owner["name"] == "hard"


async def test_a_sandbox_reaches_nothing(episodes: Episodes, busybox: str) -> None:
    """No token, no DNS, no API server, no other pod."""
    await episodes.create(
        "target", scripted(busybox, terminal("nc -lk -p 7777 -e true", timeout=60))
    )
    await episodes.until_running("target")
    (target,) = await episodes.pods("target")
    address = target["status"]["podIP"]
    ended = await episodes.run(
        "closed",
        scripted(
            busybox,
            terminal("ls /var/run/secrets/kubernetes.io"),
            terminal(f"nc -w 2 {address} 7777 </dev/null && echo REACHED"),
            terminal("nc -w 2 10.96.0.1 443 </dev/null && echo REACHED"),
            terminal("nslookup kubernetes.default.svc.cluster.local 10.96.0.10"),
            terminal("nslookup kubernetes.default.svc.cluster.local"),
        ),
    )
    answers = await episodes.answers(ended)
    assert "No such file or directory" in answers[0]
    for answer in answers[1:3]:
        assert "REACHED" not in answer
        assert "[exit code" in answer
    for answer in answers[3:]:
        assert "Address: 10.96.0.1" not in answer


async def test_deleting_a_running_episode_cleans_up_at_once(
    episodes: Episodes, busybox: str
) -> None:
    await episodes.create("doomed", scripted(busybox, terminal("sleep 120")))
    await episodes.until_running("doomed")
    await kubectl.check("delete", "episode", "doomed", "-n", episodes.namespace, "--timeout=30s")
    async with asyncio.timeout(30):
        while await episodes.pods("doomed"):
            await asyncio.sleep(0.2)
    results = await episodes.client.list(EPISODE_RESULTS, episodes.namespace, labels={})
    assert results == []


async def test_deleting_an_episode_that_starts_cleans_up(episodes: Episodes, busybox: str) -> None:
    await episodes.create("early", scripted(busybox))
    await kubectl.check("delete", "episode", "early", "-n", episodes.namespace, "--timeout=30s")
    async with asyncio.timeout(30):
        while await episodes.client.list(PODS, episodes.namespace, labels={}):
            await asyncio.sleep(0.2)


async def test_time_to_live(episodes: Episodes, busybox: str) -> None:
    await episodes.create("brief", scripted(busybox, ttlSecondsAfterFinished=2))
    ended = await episodes.finish("brief")
    async with asyncio.timeout(60):
        while await episodes.client.get(EPISODES, episodes.namespace, "brief") is not None:
            await asyncio.sleep(0.2)
    name = ended.result.metadata["name"]
    assert await episodes.client.get(EPISODE_RESULTS, episodes.namespace, name) is not None


async def test_a_second_episode_of_the_name_has_a_result_of_its_own(
    episodes: Episodes, busybox: str
) -> None:
    first = await episodes.run("again", scripted(busybox))
    await kubectl.check("delete", "episode", "again", "-n", episodes.namespace)
    second = await episodes.run(
        "again", scripted(busybox, test="echo 0 > /logs/verifier/reward.txt")
    )
    assert first.verdict == ("Passed", 1, "TestsPassed")
    assert second.verdict == ("Failed", 0, "TestsFailed")
    assert first.result.metadata["name"] != second.result.metadata["name"]


@pytest.mark.parametrize(
    ("spec", "reason", "says"),
    [
        (
            {"task": {"instructionFrom": {"configMapKeyRef": {"name": "nowhere", "key": "a"}}}},
            "InvalidTask",
            "there is no ConfigMap nowhere",
        ),
        (
            {
                "task": {
                    "instruction": "x",
                    "files": [
                        {
                            "path": "/a",
                            "contentFrom": {"secretKeyRef": {"name": "s", "key": "k"}},
                        }
                    ],
                }
            },
            "InvalidTask",
            "operator.secretReferences",
        ),
        (
            {"task": {"instruction": "x", "setup": {"script": "echo broken; exit 3"}}},
            "SetupFailed",
            "exit code 3: broken",
        ),
    ],
)
async def test_bad_input_is_a_failed_condition(
    episodes: Episodes, busybox: str, spec: dict[str, Any], reason: str, says: str
) -> None:
    task = {"image": busybox, **spec["task"]}
    ended = await episodes.run("bad", scripted(busybox, task=task))
    assert ended.verdict == ("NoVerdict", None, reason)
    failed = next(c for c in ended.episode.status.conditions if c.type == "Failed")
    assert failed.status == "True"
    assert says in failed.message
    assert ended.episode.status.attempt == 0, "bad input is not retried"


async def test_files_setup_and_references(episodes: Episodes, busybox: str) -> None:
    await kubectl.check(
        "create",
        "configmap",
        "inputs",
        "-n",
        episodes.namespace,
        "--from-literal=words=from a map",
        "--from-literal=instruction=the instruction",
    )
    task = {
        "image": busybox,
        "workdir": "/workspace",
        "instructionFrom": {"configMapKeyRef": {"name": "inputs", "key": "instruction"}},
        "env": [{"name": "COLOUR", "value": "blue"}],
        "files": [
            {"path": "/workspace/a/inline.sh", "content": "echo inline\n", "mode": "755"},
            {
                "path": "/workspace/map.txt",
                "contentFrom": {"configMapKeyRef": {"name": "inputs", "key": "words"}},
            },
        ],
        "setup": {"script": "echo $COLOUR > setup.txt"},
    }
    ended = await episodes.run(
        "inputs", scripted(busybox, terminal("a/inline.sh; cat map.txt setup.txt"), task=task)
    )
    assert (await episodes.answers(ended))[0] == "inline\nfrom a mapblue\n"
    assert (await episodes.messages(ended))[1] == {"role": "user", "content": "the instruction"}
