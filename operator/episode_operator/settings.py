"""The operator's own configuration, from the environment the chart sets."""

import os
import re
from dataclasses import dataclass
from ipaddress import ip_network

from episode_operator.kube.membership import Replica
from episode_operator.kube.namespaces import Namespaces
from episode_operator.results.objects import ObjectStore, ObjectStoreError
from episode_operator.sandbox.pod import SandboxSettings

_PATTERN = re.compile(r"[a-z0-9*?!\[\]-]+")
"""What a shell pattern of namespaces is made of; with anything else it would match none."""


class SettingsError(ValueError):
    """A setting is missing or wrong."""


def _listed(name: str) -> tuple[str, ...]:
    return tuple(item for item in os.environ.get(name, "").split(",") if item)


def _blocks(name: str) -> tuple[str, ...]:
    blocks = _listed(name)
    for block in blocks:
        try:
            ip_network(block, strict=False)
        except ValueError as error:
            raise SettingsError(f"{name}: {error}") from error
    return blocks


def _patterns(name: str) -> tuple[str, ...]:
    patterns = _listed(name)
    for pattern in patterns:
        if not _PATTERN.fullmatch(pattern):
            raise SettingsError(
                f"{name}: {pattern!r} matches no namespace; a pattern has small letters, digits, "
                "dashes and the shell's * ? [ ] !"
            )
    return patterns


def _object_store() -> ObjectStore | None:
    url = os.environ.get("EPISODE_OBJECT_STORE")
    try:
        return ObjectStore(url) if url else None
    except ObjectStoreError as error:
        raise SettingsError(f"EPISODE_OBJECT_STORE: {error}") from error


def _replica() -> Replica | None:
    name = os.environ.get("EPISODE_REPLICA_NAME")
    if not name:
        return None
    others = ("EPISODE_REPLICA_NAMESPACE", "EPISODE_INSTALLATION")
    namespace, installation = (os.environ.get(other, "") for other in others)
    if not (namespace and installation):
        raise SettingsError(f"EPISODE_REPLICA_NAME is set: set {' and '.join(others)} too")
    return Replica(name, os.environ.get("EPISODE_REPLICA_UID", ""), namespace, installation)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the installation decides; see charts/episode-operator/values.yaml."""

    sandbox: SandboxSettings
    namespaces: Namespaces
    log_level: str
    replica: Replica | None = None
    """None: there are no other replicas."""
    retry_backoff_seconds: float = 10.0
    model_retry_seconds: float = 300.0
    session_retry_seconds: float = 180.0
    sweep_interval_seconds: float = 60.0
    object_store: ObjectStore | None = None
    health_port: int = 8080
    metrics_port: int = 9090
    view_port: int = 9091

    @classmethod
    def from_environment(cls) -> "Settings":
        """Read the EPISODE_* variables.

        Raises:
            SettingsError: a variable is missing or wrong.
        """
        runner_image = os.environ.get("EPISODE_RUNNER_IMAGE")
        if not runner_image:
            raise SettingsError("EPISODE_RUNNER_IMAGE must name the image of the runner")
        return cls(
            sandbox=SandboxSettings(
                runner_image=runner_image,
                require_network_policy=os.environ.get("EPISODE_REQUIRE_NETWORK_POLICY") != "false",
                blocked_cidrs=_blocks("EPISODE_BLOCKED_CIDRS"),
            ),
            namespaces=Namespaces(
                watched=_listed("EPISODE_WATCH_NAMESPACES"),
                ignored=_patterns("EPISODE_IGNORE_NAMESPACES"),
            ),
            log_level=os.environ.get("EPISODE_LOG_LEVEL", "info").upper(),
            replica=_replica(),
            retry_backoff_seconds=float(os.environ.get("EPISODE_RETRY_BACKOFF_SECONDS", "10")),
            model_retry_seconds=float(os.environ.get("EPISODE_MODEL_RETRY_SECONDS", "300")),
            session_retry_seconds=float(os.environ.get("EPISODE_SESSION_RETRY_SECONDS", "180")),
            sweep_interval_seconds=float(os.environ.get("EPISODE_SWEEP_INTERVAL_SECONDS", "60")),
            object_store=_object_store(),
            health_port=int(os.environ.get("EPISODE_HEALTH_PORT", "8080")),
            metrics_port=int(os.environ.get("EPISODE_METRICS_PORT", "9090")),
            view_port=int(os.environ.get("EPISODE_VIEW_PORT", "9091")),
        )
