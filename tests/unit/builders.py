"""Small valid objects for unit tests."""

from typing import Any

from episode_operator.api.episode import Episode, EpisodeSpec

UID = "0f5e2f8e-8f1e-4e9b-9a61-0d6b6e3b7c11"
CREATED = "2026-11-29T10:00:00Z"


def spec(**overrides: Any) -> EpisodeSpec:
    """An oracle Episode's spec, with top-level fields replaced."""
    value: dict[str, Any] = {
        "task": {
            "image": "registry.test/task:1",
            "instruction": "do it",
            "solution": {"script": "true"},
        },
        "verifier": {"testScript": {"script": "true"}},
        "agent": {"kind": "Oracle"},
    }
    return EpisodeSpec.model_validate({**value, **overrides})


def episode(**overrides: Any) -> Episode:
    """An Episode as the API server gives it."""
    return Episode(
        metadata={
            "name": "hello",
            "namespace": "default",
            "uid": UID,
            "generation": 1,
            "creationTimestamp": CREATED,
        },
        spec=spec(**overrides),
    )


def pod(**status: Any) -> dict[str, Any]:
    """A pod of the Episode's first attempt."""
    return {
        "metadata": {
            "name": "hello-a0",
            "uid": "pod-uid",
            "creationTimestamp": CREATED,
        },
        "status": status,
    }


def container(state: dict[str, Any], name: str = "sandbox") -> dict[str, Any]:
    """One container status."""
    return {"name": name, "image": "registry.test/task:1", "state": state}
