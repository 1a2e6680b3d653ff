"""An Episode made again from another one's spec."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from episode_operator.api.base import GROUP, ApiModel, Archive
from episode_operator.api.episode import Episode
from episode_operator.kube.client import CONFIG_MAPS, EPISODES, KubernetesClient, Object
from episodectl import episodes, specs
from episodectl.errors import CommandError

_RETRY = re.compile(r"-retry-[0-9a-f]{6}$")


@dataclass(frozen=True, slots=True)
class Copy:
    """An Episode to be created.

    Attributes:
        body: its manifest.
        dropped: what of the other one is left out, for people.
        parts: ConfigMaps that hold its files.
    """

    body: Object
    dropped: tuple[str, ...]
    parts: tuple[str, ...]


def copied(stored: Object, name: str | None = None) -> Copy:
    """The Episode with the same spec, under a new name.

    Labels stay, but for those of episodes.dev/, and so does the spec, but for its group: a group
    of the trainer bridge has each member once.

    Raises:
        CommandError: it is still at work.
    """
    episode = Episode.model_validate(stored)
    if not episode.status.finished:
        raise CommandError(
            f"Episode {episode.name} is not finished, its phase is "
            f"{episode.status.phase or 'not set'}: watch it, or cancel it"
        )
    labels: dict[str, str] = stored["metadata"].get("labels") or {}
    kept = {key: value for key, value in labels.items() if not key.startswith(f"{GROUP}/")}
    spec = {key: value for key, value in stored["spec"].items() if key != "group"}
    dropped = [f"label {key}={value}" for key, value in labels.items() if key not in kept]
    if episode.spec.group is not None:
        group = episode.spec.group
        dropped.append(f"spec.group {group.name}, member {group.member}")
    chosen = specs.checked_name(name) if name else specs.unique(f"{_base(episode.name)}-retry")
    metadata: dict[str, Any] = {"name": chosen, "namespace": episode.namespace}
    if kept:
        metadata["labels"] = kept
    body = {
        "apiVersion": stored["apiVersion"],
        "kind": stored["kind"],
        "metadata": metadata,
        "spec": spec,
    }
    parts = {part for archive in _archives(episode.spec) for part in archive.parts}
    return Copy(body, tuple(dropped), tuple(sorted(parts)))


async def create(client: KubernetesClient, copy: Copy) -> Object:
    """Create it. Files that would go with the other Episode stay for this one too.

    Raises:
        CommandError: a ConfigMap of its files is gone, or the name is taken.
        ApiError: the API server does not answer, or refuses.
    """
    namespace = copy.body["metadata"]["namespace"]
    owned = []
    if copy.parts:
        found = await client.list(CONFIG_MAPS, namespace, metadata_only=True)
        held = {each["metadata"]["name"]: each["metadata"] for each in found}
        gone = [part for part in copy.parts if part not in held]
        if gone:
            raise CommandError(
                f"its files are gone: ConfigMap {', '.join(gone)} is no more; run the task again "
                "from its folder"
            )
        owned = [part for part in copy.parts if held[part].get("ownerReferences")]
    return await episodes.create(client, [(EPISODES, copy.body)], shared=owned)


def _base(name: str) -> str:
    """The name without what an earlier retry has added, short enough to keep the ending."""
    return _RETRY.sub("", name)[:33]


def _archives(value: Any) -> Iterator[Archive]:
    """All archives anywhere in a spec."""
    if isinstance(value, Archive):
        yield value
    elif isinstance(value, ApiModel):
        for name in type(value).model_fields:
            yield from _archives(getattr(value, name))
    elif isinstance(value, list):
        for each in value:
            yield from _archives(each)
