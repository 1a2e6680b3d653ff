"""Single Episodes: found by their name, made with the files they need, followed to their end."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from episode_operator.api.base import API_VERSION
from episode_operator.api.episode import Episode, EpisodeStatus
from episode_operator.kube.client import (
    CONFIG_MAPS,
    EPISODES,
    AlreadyExistsError,
    KubernetesClient,
    Object,
    Resource,
)
from episodectl.errors import CommandError, UnknownNameError
from trainer_bridge.sources import Build, manifest

_POLL_SECONDS = 1.0
_UPTAKE_SECONDS = 60.0
_OVERTIME_SECONDS = 300.0
_STRATEGIC_MERGE = "application/strategic-merge-patch+json"


class NotFinishedError(Exception):
    """An Episode that nobody works on.

    Attributes:
        reason: NotTakenUp, NotFinished or EpisodeDeleted.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


async def names(client: KubernetesClient, resource: Resource, namespace: str) -> list[str]:
    """Names of all objects of a kind in the namespace."""
    found = await client.list(resource, namespace, metadata_only=True)
    return [each["metadata"]["name"] for each in found]


async def stored(client: KubernetesClient, namespace: str, name: str) -> Object:
    """The Episode as the API server has it.

    Raises:
        UnknownNameError: there is none of that name.
    """
    found = await client.get(EPISODES, namespace, name)
    if found is None:
        known = await names(client, EPISODES, namespace)
        raise UnknownNameError("no Episode", name, namespace, known)
    return found


def objects(
    name: str, build: Build, *, namespace: str | None, labels: Mapping[str, str]
) -> list[tuple[Resource, Object]]:
    """What must be created, in this order: the ConfigMaps of the Episode's files, the Episode.

    Without a namespace they are as `kubectl apply` takes them.
    """
    parts = [(CONFIG_MAPS, part.to_api(namespace or "", labels)) for part in build.parts]
    episode = manifest(name, build.spec)
    episode["metadata"] |= {"namespace": namespace, "labels": dict(labels)}
    made = [*parts, (EPISODES, episode)]
    for _, body in made:
        for field in ("namespace", "labels"):
            if not body["metadata"][field]:
                del body["metadata"][field]
    return made


async def create(
    client: KubernetesClient, made: list[tuple[Resource, Object]], *, shared: Sequence[str] = ()
) -> Object:
    """Create what `objects` gave; the Episode, which owns its ConfigMaps then, and shared ones.

    Where one of these steps fails, what was created is deleted again.

    Raises:
        CommandError: an Episode, or a ConfigMap of one, has such a name.
        ApiError: the API server does not answer, or refuses.
    """
    created: list[tuple[Resource, Object]] = []
    try:
        for resource, body in made:
            created.append((resource, await client.create(resource, body)))
        _, episode = created[-1]
        own = [body["metadata"]["name"] for _, body in created[:-1]]
        for name in (*own, *shared):
            await _add_owner(client, name, episode)
    except BaseException as error:
        for resource, body in reversed(created):
            metadata = body["metadata"]
            await client.delete(resource, metadata["namespace"], metadata["name"])
        if isinstance(error, AlreadyExistsError):
            name = made[-1][1]["metadata"]["name"]
            raise CommandError(
                f"the name {name} is taken: {error.message}; delete the Episode that has it, or "
                "choose another --name"
            ) from error
        raise
    return episode


async def _add_owner(client: KubernetesClient, config_map: str, episode: Object) -> None:
    """Let a ConfigMap stay as long as the Episode does, besides any owners it has."""
    metadata = episode["metadata"]
    owner = {
        "apiVersion": API_VERSION,
        "kind": "Episode",
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    await client.request(
        "PATCH",
        CONFIG_MAPS.path(metadata["namespace"], config_map),
        body={"metadata": {"ownerReferences": [owner]}},
        content_type=_STRATEGIC_MERGE,
    )


async def finished(
    client: KubernetesClient,
    namespace: str,
    name: str,
    *,
    on_change: Callable[[EpisodeStatus], None] = lambda status: None,
) -> Episode:
    """The Episode once it is finished; each status on the way is told.

    Raises:
        NotFinishedError: no operator takes it up, it is not ended long after its time, or it was
            deleted.
        ApiError: the API server does not answer, or refuses.
    """
    started, told = time.monotonic(), None
    while True:
        found = await client.get(EPISODES, namespace, name)
        if found is None:
            raise NotFinishedError("EpisodeDeleted", f"somebody deleted Episode {name}")
        episode = Episode.model_validate(found)
        if episode.status != told:
            told = episode.status
            on_change(told)
        if told.finished:
            return episode
        _check_progress(episode, time.monotonic() - started)
        await asyncio.sleep(_POLL_SECONDS)


def _check_progress(episode: Episode, waited: float) -> None:
    if episode.status.phase is None and waited > _UPTAKE_SECONDS:
        raise NotFinishedError(
            "NotTakenUp",
            f"no operator has taken the Episode up in {waited:.0f} s; does one run, and does it "
            f"watch namespace {episode.namespace}?",
        )
    if waited > episode.spec.active_deadline_seconds + _OVERTIME_SECONDS:
        raise NotFinishedError("NotFinished", f"not finished in {waited:.0f} s")


def ending(episode: Episode) -> dict[str, Any]:
    """How a finished Episode ended, for programs, in the API's words."""
    said = episode.status.to_api()
    kept = ("phase", "verdict", "reward", "turns", "tokens", "reason", "message", "resultName")
    return {
        "namespace": episode.namespace,
        "name": episode.name,
        "uid": episode.uid,
        **{key: said.get(key) for key in kept},
    }
