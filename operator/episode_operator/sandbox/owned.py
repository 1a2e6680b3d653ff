"""Metadata of what belongs to an Episode."""

from typing import Any

from episode_operator.api.base import API_VERSION
from episode_operator.api.episode import Episode
from episode_operator.api.labels import EPISODE_NAME, EPISODE_UID, label_value


def metadata(episode: Episode, name: str) -> dict[str, Any]:
    """Metadata of an object that the operator finds by its labels.

    The owner reference lets the garbage collector delete the object with its Episode.
    """
    return {
        "name": name,
        "namespace": episode.namespace,
        "labels": {
            "app.kubernetes.io/managed-by": "episode-operator",
            EPISODE_UID: episode.uid,
            EPISODE_NAME: label_value(episode.name),
        },
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": "Episode",
                "name": episode.name,
                "uid": episode.uid,
                "controller": True,
                "blockOwnerDeletion": False,
            }
        ],
    }
