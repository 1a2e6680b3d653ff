"""Labels and names the operator gives its objects."""

import hashlib

EPISODE_UID = "episodes.dev/episode-uid"
EPISODE_NAME = "episodes.dev/episode"
ATTEMPT = "episodes.dev/attempt"
GROUP_NAME = "episodes.dev/group"
RUN = "episodes.dev/run"
"""The run of the trainer bridge that an Episode is of; copied to its EpisodeResult."""

FIELD_MANAGER = "episode-operator"
SIDECAR_PREFIX = "sidecar-"
"""Begins the name of a sidecar's container; no other container's name begins so."""

_LABEL_MAX = 63
_NAME_MAX = 253
_HASH_LENGTH = 10


def _shorten(value: str, limit: int) -> str:
    if len(value) <= limit:
        return value
    digest = hashlib.sha256(value.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{value[: limit - _HASH_LENGTH - 1].rstrip('-_.')}-{digest}"


def label_value(value: str) -> str:
    """The value as a label: itself, or cut and hashed beyond 63 characters."""
    return _shorten(value, _LABEL_MAX)


def pod_name(episode: str, attempt: int) -> str:
    """Name of the pod of one attempt; the same for every call, at most 63 characters."""
    suffix = f"-a{attempt}"
    if "." in episode:  # no dots in a host name; a.b and a-b must stay apart
        digest = hashlib.sha256(episode.encode()).hexdigest()
        episode = f"{episode.replace('.', '-')}-{digest[:_HASH_LENGTH]}"
    return _shorten(episode, _LABEL_MAX - len(suffix)) + suffix


def unique_name(episode: str, uid: str) -> str:
    """Name of an Episode's EpisodeResult and NetworkPolicy.

    Two Episodes of one name, one after the other, have objects of their own.
    """
    suffix = f"-{uid[:8]}"
    return _shorten(episode, _NAME_MAX - len(suffix)) + suffix
