"""What a sandbox reaches on a real cluster, in each mode of its network."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from episode_operator.kube.client import CILIUM_NETWORK_POLICIES, Object
from tests.cluster import kubectl
from tests.cluster.episodes import Ended, Episodes, scripted, terminal
from tests.cluster.local_operator import operating
from tests.cluster.network import API_SERVER, allow, reach, reached, servers
from tests.testbed import stack

NAMES = "nslookup kubernetes.default.svc.cluster.local"


async def allowed(
    episodes: Episodes, name: str, busybox: str, rule: Object, calls: list[Object]
) -> Ended:
    return await episodes.run(name, scripted(busybox, *calls, sandbox=allow(rule)))


@pytest.mark.parametrize("kind", ["cidr", "pods"])
async def test_an_allowlist_opens_one_port_of_one_pod_and_nothing_else(
    episodes: Episodes, image: str, busybox: str, kind: str
) -> None:
    named, other = await servers(episodes, image, "named", "other")
    destinations: dict[str, Object] = {
        "cidr": {"cidr": f"{named}/32"},
        "pods": {"pods": {"matchLabels": {"app": "named"}}},
    }
    calls = [
        reach(f"{named} 8001"),
        reach(f"{named} 8002"),
        reach(f"{other} 8001"),
        reach(API_SERVER),
        terminal(NAMES),
        terminal(f"{NAMES} 10.96.0.10"),
    ]
    rule = {**destinations[kind], "ports": [8001]}
    ended = await allowed(episodes, "one-port", busybox, rule, calls)
    answers = await episodes.answers(ended)
    assert reached(answers[:4]) == [True, False, False, False]
    assert all("Address: 10.96.0.1" not in answer for answer in answers[4:])


async def test_pods_of_another_namespace_must_be_named(
    episodes: Episodes, image: str, busybox: str
) -> None:
    """The label alone opens nothing outside the Episode's namespace."""
    (named,) = await servers(episodes, image, "named")
    rule = {"pods": {"namespace": "default", "matchLabels": {"app": "named"}}}
    ended = await allowed(episodes, "elsewhere", busybox, rule, [reach(f"{named} 8001")])
    assert reached(await episodes.answers(ended)) == [False]


async def _system_address(component: str) -> str:
    selector = f"app.kubernetes.io/instance={stack.RELEASE},app.kubernetes.io/component={component}"
    (pod,) = await kubectl.items("pods", namespace=stack.NAMESPACE, selector=selector)
    address: str = pod["status"]["podIP"]
    return address


def _everything(mode: str) -> Object:
    blocks: list[Object] = [{"cidr": "0.0.0.0/0"}, {"cidr": "0.0.0.0/0", "protocol": "UDP"}]
    return {"mode": mode, "allow": blocks} if mode == "Allowlist" else {"mode": mode}


@pytest.mark.parametrize("mode", ["Public", "Allowlist"])
async def test_the_model_and_the_operator_are_never_reached_unasked(
    episodes: Episodes, busybox: str, mode: str
) -> None:
    model, operator = await _system_address("vllm"), await _system_address("operator")
    service = await kubectl.get("service", stack.MODEL_SERVICE, namespace=stack.NAMESPACE)
    ended = await episodes.run(
        "curious",
        scripted(
            busybox,
            reach(f"{model} 8000"),
            reach(f"{service['spec']['clusterIP']} 8000"),
            reach(f"{operator} 8080"),
            reach(f"{operator} 9090"),
            reach(API_SERVER),
            terminal(NAMES),
            sandbox={"network": _everything(mode)},
        ),
    )
    answers = await episodes.answers(ended)
    assert reached(answers[:4]) == [False] * 4
    assert ("REACHED" in answers[4]) is (mode == "Allowlist"), "opened by a block around it"
    assert ("Address: 10.96.0.1" in answers[5]) is (mode == "Public")
    events = await kubectl.items("events", namespace=episodes.namespace)
    unchecked = [event["type"] for event in events if event["reason"] == "NetworkNotChecked"]
    assert unchecked == (["Warning"] if mode == "Allowlist" else [])


async def test_another_pod_reads_the_metrics_and_nothing_else(
    episodes: Episodes, image: str
) -> None:
    operator, model = await _system_address("operator"), await _system_address("vllm")
    code = (
        "import socket, sys\n"
        "for target in sys.argv[1:]:\n"
        "    host, port = target.split(':')\n"
        "    with socket.socket() as s:\n"
        "        s.settimeout(2)\n"
        "        print(s.connect_ex((host, int(port))) == 0)\n"
    )
    targets = (f"{operator}:9090", f"{operator}:8080", f"{model}:8000")
    await servers(episodes, image, "scraper")
    where = ("-n", episodes.namespace, "scraper", "--")
    printed = await kubectl.check("exec", *where, "python3", "-c", code, *targets)
    assert printed.split() == ["True", "False", "False"]


async def test_the_model_is_reached_when_both_sides_ask(episodes: Episodes, busybox: str) -> None:
    """The Episode names the model's pods, and the model's policy (the chart's value) lets it in."""
    labels = {
        "app.kubernetes.io/instance": stack.RELEASE,
        "app.kubernetes.io/component": "vllm",
    }
    rule = {"pods": {"namespace": stack.NAMESPACE, "matchLabels": labels}, "ports": [8000]}
    calls = [reach(f"{await _system_address('vllm')} 8000")]
    refused = await allowed(episodes, "one-side", busybox, rule, calls)
    assert reached(await episodes.answers(refused)) == [False]
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "test-profile"},
        "spec": {
            "podSelector": {"matchLabels": labels},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [
                        {
                            "namespaceSelector": {
                                "matchLabels": {"kubernetes.io/metadata.name": episodes.namespace}
                            }
                        }
                    ]
                }
            ],
        },
    }
    ran = await kubectl.apply(policy, namespace=stack.NAMESPACE)
    assert ran.code == 0, ran.stderr
    try:
        asked = await allowed(episodes, "both-sides", busybox, rule, [terminal("sleep 2"), *calls])
        assert reached(await episodes.answers(asked))[1:] == [True]
    finally:
        await kubectl.check("delete", "networkpolicy", "test-profile", "-n", stack.NAMESPACE)


# Hosts

CILIUM_CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ciliumnetworkpolicies.cilium.io"},
    "spec": {
        "group": "cilium.io",
        "scope": "Namespaced",
        "names": {
            "kind": "CiliumNetworkPolicy",
            "plural": "ciliumnetworkpolicies",
            "singular": "ciliumnetworkpolicy",
        },
        "versions": [
            {
                "name": "v2",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
"""The definition alone: nothing enforces it, which is not what these tests are about."""


@asynccontextmanager
async def cilium(namespace: str) -> AsyncIterator[None]:
    """A cluster that has CiliumNetworkPolicies: an operator finds them at its start."""
    name = CILIUM_CRD["metadata"]["name"]
    ran = await kubectl.apply(CILIUM_CRD, namespace=namespace)
    assert ran.code == 0, ran.stderr
    try:
        await kubectl.check("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")
        yield
    finally:
        await kubectl.check("delete", "crd", str(name), "--timeout=300s")


def _by_name(busybox: str) -> Object:
    rule = {"host": "*.example.test", "ports": [443]}
    return scripted(busybox, reach(API_SERVER), sandbox=allow(rule))


async def test_a_host_without_cilium_is_an_invalid_task(episodes: Episodes, busybox: str) -> None:
    ended = await episodes.run("by-name", _by_name(busybox))
    assert ended.verdict == ("NoVerdict", None, "InvalidTask")
    assert "host names in sandbox.network.allow need Cilium" in ended.result.spec.message
    assert await episodes.pods("by-name") == []


async def test_a_host_is_a_cilium_network_policy(
    unwatched: Episodes, busybox: str, tmp_path: Path
) -> None:
    async with cilium(unwatched.namespace), operating(unwatched, tmp_path):
        ended = await unwatched.run("by-name", _by_name(busybox))
        (policy,) = await unwatched.client.list(
            CILIUM_NETWORK_POLICIES,
            unwatched.namespace,
            labels={"episodes.dev/episode-uid": ended.episode.uid},
        )
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert reached(await unwatched.answers(ended)) == [False]
    (owner,) = policy["metadata"]["ownerReferences"]
    assert owner["uid"] == ended.episode.uid
    dns, opened = policy["spec"]["egress"]
    assert dns["toPorts"][0]["rules"]["dns"] == [{"matchPattern": "*.example.test"}]
    assert opened["toFQDNs"] == [{"matchPattern": "*.example.test"}]
