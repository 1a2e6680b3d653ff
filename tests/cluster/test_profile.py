"""The sandbox profile on a real cluster: Pod Security, network, sidecars, user namespaces."""

import copy
from typing import Any

import pytest

from episode_operator.kube.client import Object
from tests.cluster import kubectl
from tests.cluster.episodes import Episodes, scripted, terminal
from tests.cluster.network import API_SERVER, allow, reach
from tests.cluster.test_api_refusals import GOOD

NOBODY = 65_534
SERVE = "python3 -m http.server --directory /srv"
SEPARATE: Object = {"isolation": "SeparateContainer", "timeoutSeconds": 60}
PASS = "echo 1 > /logs/verifier/reward.txt"


def non_root(image: str) -> Object:
    return {"image": image, "instruction": "x", "workdir": "/tmp", "user": NOBODY}


def web(image: str, script: str, **more: Any) -> Object:
    """A sidecar that runs a script of its image's shell."""
    return {
        "name": "web",
        "image": image,
        "command": ["sh", "-c", script],
        "ready": {"tcpPort": 8000, "timeoutSeconds": 60},
        **more,
    }


async def enforce(namespace: str, level: str) -> None:
    label = f"pod-security.kubernetes.io/enforce={level}"
    await kubectl.check("label", "namespace", namespace, label)


def sidecars(*ready: Object) -> Object:
    return {"sidecars": [{"name": "web", "image": "i", "ready": each} for each in ready]}


ONE_DESTINATION = "exactly one of cidr, host, pods must be set"
ONE_CHECK = "exactly one of tcpPort, httpGet, exec must be set"
REFUSED: dict[str, tuple[Object, str]] = {
    "no destination": (allow({"ports": [80]}), ONE_DESTINATION),
    "two destinations": (allow({"cidr": "10.0.0.0/8", "host": "a.test"}), ONE_DESTINATION),
    "a host of one word": (allow({"host": "localhost"}), "allow[0].host"),
    "a pattern inside a name": (allow({"host": "a.*.test"}), "allow[0].host"),
    "pods without labels": (allow({"pods": {"matchLabels": {}}}), "allow[0].pods.matchLabels"),
    "another protocol": (allow({"cidr": "10.0.0.0/8", "protocol": "SCTP"}), "allow[0].protocol"),
    "a sidecar nobody asks": (sidecars({}), ONE_CHECK),
    "a sidecar asked twice": (sidecars({"tcpPort": 1, "exec": ["true"]}), ONE_CHECK),
    "two sidecars of a name": (sidecars({"tcpPort": 1}, {"tcpPort": 2}), "Duplicate value"),
    "a limit to a taint of no effect": (
        {"tolerations": [{"operator": "Exists", "tolerationSeconds": 5}]},
        "tolerationSeconds is only for effect NoExecute",
    ),
}


@pytest.mark.parametrize("mistake", REFUSED)
async def test_a_mistake_in_the_profile_is_refused(mistake: str) -> None:
    sandbox, message = REFUSED[mistake]
    wrong = copy.deepcopy(GOOD)
    wrong["spec"]["sandbox"] = sandbox
    ran = await kubectl.apply(wrong, namespace="default", dry_run=True)
    assert ran.code != 0, "it was accepted"
    assert message in ran.stderr


# Pod Security


async def test_restricted_admits_a_whole_episode_without_root(
    episodes: Episodes, image: str, busybox: str
) -> None:
    """The runner, the task, a sidecar and a separate verifier: none needs more."""
    await enforce(episodes.namespace, "restricted")
    ended = await episodes.run(
        "modest",
        scripted(
            busybox,
            terminal("id -u"),
            task=non_root(busybox),
            sandbox={"sidecars": [web(image, f"exec {SERVE}", user=NOBODY)]},
            verifier={
                **SEPARATE,
                "testScript": {"script": f"id -u | grep -qx {NOBODY} && {PASS}"},
            },
        ),
    )
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert await episodes.answers(ended) == [f"{NOBODY}\n"]


async def test_restricted_refuses_root_and_the_episode_says_so(
    episodes: Episodes, busybox: str
) -> None:
    await enforce(episodes.namespace, "restricted")
    await episodes.create("proud", scripted(busybox))

    def forbidden(episode: Any) -> bool:
        return any(c.reason == "PodForbidden" for c in episode.status.conditions)

    episode = await episodes.until("proud", forbidden, seconds=60)
    (condition,) = (c for c in episode.status.conditions if c.reason == "PodForbidden")
    assert condition.type == "SandboxReady"
    assert condition.status == "False"
    assert "restricted" in condition.message
    assert "runAsNonRoot" in condition.message
    assert await episodes.pods("proud") == []
    events = await kubectl.items("events", namespace=episodes.namespace)
    (event,) = (event for event in events if event["reason"] == "PodForbidden")
    assert "restricted" in event["message"]


async def test_baseline_admits_root_with_sidecars_and_a_separate_verifier(
    episodes: Episodes, image: str, busybox: str
) -> None:
    await enforce(episodes.namespace, "baseline")
    ended = await episodes.run(
        "usual",
        scripted(
            busybox,
            terminal("id -u; touch out"),
            sandbox={"sidecars": [web(image, f"exec {SERVE}")]},
            verifier={**SEPARATE, "testScript": {"script": f"test -f out && {PASS}"}},
        ),
    )
    assert ended.verdict == ("Passed", 1, "TestsPassed")


# Sidecars


@pytest.mark.parametrize(
    "ready",
    [
        {"tcpPort": 8000},
        {"httpGet": {"port": 8000, "path": "/hello"}},
        {"exec": ["test", "-f", "/srv/hello"]},
    ],
    ids=lambda ready: next(iter(ready)),
)
async def test_a_sidecar_is_ready_before_the_first_command_and_shares_only_the_network(
    episodes: Episodes, image: str, busybox: str, ready: Object
) -> None:
    script = f"mkdir -p /srv; touch /dev/shm/mine; sleep 2; echo hi > /srv/hello; exec {SERVE}"
    first = "wget -q -O - http://localhost:8000/hello"
    ended = await episodes.run(
        "served",
        scripted(
            busybox,
            terminal(first if "exec" not in ready else "sleep 1; " + first),
            terminal("ls -A /dev/shm /srv; ps"),
            reach(API_SERVER),
            sandbox={"sidecars": [web(image, script, ready={**ready, "timeoutSeconds": 60})]},
        ),
    )
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    served, seen, api_server = await episodes.answers(ended)
    assert served == "hi\n"
    assert "mine" not in seen
    assert "http.server" not in seen
    assert "REACHED" not in api_server


async def test_a_sidecar_that_ends_is_never_a_reward(
    episodes: Episodes, image: str, busybox: str
) -> None:
    script = f"{SERVE} & sleep 6; exit 3"
    ended = await episodes.run(
        "abandoned",
        scripted(
            busybox,
            terminal("sleep 60", timeout=90),
            sandbox={"sidecars": [web(image, script)]},
            infraRetryLimit=0,
        ),
    )
    assert ended.verdict == ("NoVerdict", None, "SidecarFailed")
    assert "sidecar-web" in ended.result.spec.message


async def test_a_sidecar_that_is_never_ready_ends_the_episode(
    episodes: Episodes, image: str, busybox: str
) -> None:
    never = web(image, "exec sleep 600", ready={"tcpPort": 1, "timeoutSeconds": 3})
    sandbox = {"sidecars": [never], "startDeadlineSeconds": 60}
    ended = await episodes.run("waiting", scripted(busybox, sandbox=sandbox, infraRetryLimit=0))
    assert ended.verdict == ("NoVerdict", None, "SidecarFailed")


# The pod


async def test_a_private_user_namespace_is_asked_of_the_node(
    episodes: Episodes, busybox: str
) -> None:
    """Where the node's runtime cannot make one, the attempt ends as an infrastructure failure."""
    sandbox = {"userNamespace": "Private", "startDeadlineSeconds": 30}
    spec = scripted(busybox, terminal("cat /proc/self/uid_map"), sandbox=sandbox, infraRetryLimit=0)
    await episodes.create("mapped", spec)
    await episodes.until("mapped", lambda e: e.status.pod_uid is not None)
    (pod,) = await episodes.pods("mapped")
    assert pod["spec"]["hostUsers"] is False
    ended = await episodes.finish("mapped")
    if ended.episode.status.verdict == "Passed":
        (mapping,) = await episodes.answers(ended)
        assert mapping.split()[:1] == ["0"]
        assert mapping.split()[1] != "0"
    else:
        assert ended.verdict[:2] == ("NoVerdict", None)
        assert ended.verdict[2] == "StartDeadlineExceeded"


async def test_a_lost_node_is_noticed_after_a_minute(episodes: Episodes, busybox: str) -> None:
    """The cluster's own default of five minutes is not added."""
    await episodes.create("patient", scripted(busybox, terminal("sleep 30")))
    await episodes.until("patient", lambda e: e.status.pod_uid is not None)
    (pod,) = await episodes.pods("patient")
    seconds = {t["key"]: t["tolerationSeconds"] for t in pod["spec"]["tolerations"]}
    assert seconds == {
        "node.kubernetes.io/not-ready": 60,
        "node.kubernetes.io/unreachable": 60,
    }
