"""The sweeper on the real cluster: what no Episode needs goes, what is needed stays."""

from typing import Any

from episode_operator.api.labels import EPISODE_UID
from episode_operator.controller import metrics
from episode_operator.controller.sweeper import Sweeper
from episode_operator.kube.client import NETWORK_POLICIES, PODS, KubernetesClient, Resource
from episode_operator.kube.namespaces import Namespaces
from tests.cluster.episodes import Episodes, scripted, terminal


def swept(resource: Resource) -> float:
    return float(metrics.LEAKED.labels(resource.plural)._value.get())


def labelled(name: str, namespace: str, uid: str) -> dict[str, Any]:
    return {"name": name, "namespace": namespace, "labels": {EPISODE_UID: uid}}


async def names(client: KubernetesClient, resource: Resource, namespace: str) -> set[str]:
    found = await client.list(resource, namespace, labels={EPISODE_UID: None})
    return {f["metadata"]["name"] for f in found if "deletionTimestamp" not in f["metadata"]}


def sweeper(
    client: KubernetesClient, *, grace_seconds: float, ignored: tuple[str, ...] = ()
) -> Sweeper:
    return Sweeper(
        client,
        Namespaces(ignored=ignored),
        policies=[NETWORK_POLICIES],
        live=set,
        interval_seconds=1,
        grace_seconds=grace_seconds,
    )


async def test_what_no_episode_needs_is_deleted(
    episodes: Episodes, client: KubernetesClient, busybox: str
) -> None:
    """What is of no Episode is counted as leaked, the policy of a finished one is not."""
    namespace = episodes.namespace
    await episodes.run("finished", scripted(busybox))
    await episodes.create("alive", scripted(busybox, terminal("sleep 60")))
    await episodes.until_running("alive")
    container = {"name": "c", "image": busybox, "command": ["/bin/sleep", "600"]}
    pod = {"metadata": labelled("orphan", namespace, "no-such-episode")}
    await client.create(PODS, {**pod, "spec": {"containers": [container]}})
    policy = {"metadata": labelled("orphan", namespace, "another-that-is-gone")}
    await client.create(NETWORK_POLICIES, {**policy, "spec": {"podSelector": {}}})
    before = {resource: swept(resource) for resource in (PODS, NETWORK_POLICIES)}

    await sweeper(client, grace_seconds=3600).sweep(namespace)
    assert len(await names(client, NETWORK_POLICIES, namespace)) == 3

    others = (f"*{namespace[1:]}",)
    await sweeper(client, grace_seconds=-1, ignored=others).sweep(namespace)
    assert len(await names(client, NETWORK_POLICIES, namespace)) == 3
    assert "orphan" in await names(client, PODS, namespace)

    await sweeper(client, grace_seconds=-1).sweep(namespace)
    for resource in (PODS, NETWORK_POLICIES):
        assert "orphan" not in await names(client, resource, namespace)
        assert swept(resource) == before[resource] + 1
    assert await names(client, PODS, namespace) == {"alive-a0"}
    [policy_left] = await names(client, NETWORK_POLICIES, namespace)
    assert policy_left.startswith("alive-")
