"""The sweeper on the real cluster: what outlived its Episode goes, what is needed stays."""

from typing import Any

from episode_operator.api.labels import EPISODE_UID
from episode_operator.controller import metrics
from episode_operator.controller.sweeper import Sweeper
from episode_operator.kube.client import NETWORK_POLICIES, PODS, KubernetesClient, Resource
from tests.cluster.episodes import Episodes, scripted, terminal


def swept(resource: Resource) -> float:
    return float(metrics.LEAKED.labels(resource.plural)._value.get())


def labelled(name: str, namespace: str, uid: str) -> dict[str, Any]:
    return {"name": name, "namespace": namespace, "labels": {EPISODE_UID: uid}}


async def names(client: KubernetesClient, resource: Resource, namespace: str) -> set[str]:
    found = await client.list(resource, namespace, labels={EPISODE_UID: None})
    return {f["metadata"]["name"] for f in found if "deletionTimestamp" not in f["metadata"]}


async def test_what_no_episode_needs_is_deleted_and_counted(
    episodes: Episodes, client: KubernetesClient, busybox: str
) -> None:
    namespace = episodes.namespace
    await episodes.create("alive", scripted(busybox, terminal("sleep 60")))
    await episodes.until_running("alive")
    container = {"name": "c", "image": busybox, "command": ["/bin/sleep", "600"]}
    pod = {"metadata": labelled("orphan", namespace, "no-such-episode")}
    await client.create(PODS, {**pod, "spec": {"containers": [container]}})
    policy = {"metadata": labelled("orphan", namespace, "no-such-episode")}
    await client.create(NETWORK_POLICIES, {**policy, "spec": {"podSelector": {}}})
    before = {resource: swept(resource) for resource in (PODS, NETWORK_POLICIES)}

    sweeper = Sweeper(
        client,
        [],
        policies=[NETWORK_POLICIES],
        live=set,
        interval_seconds=1,
        grace_seconds=-1,
    )
    await sweeper.sweep(namespace)

    for resource in (PODS, NETWORK_POLICIES):
        assert "orphan" not in await names(client, resource, namespace)
        assert swept(resource) == before[resource] + 1
    assert await names(client, PODS, namespace) == {"alive-a0"}
    assert len(await names(client, NETWORK_POLICIES, namespace)) == 1
