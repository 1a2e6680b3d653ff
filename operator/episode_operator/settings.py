"""The operator's own configuration, from the environment the chart sets."""

import os
from dataclasses import dataclass

from episode_operator.sandbox.pod import SandboxSettings


class SettingsError(ValueError):
    """A setting is missing or wrong."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the installation decides; see charts/episode-operator/values.yaml."""

    sandbox: SandboxSettings
    watch_namespaces: tuple[str, ...]
    log_level: str
    health_port: int = 8080
    metrics_port: int = 9090

    @classmethod
    def from_environment(cls) -> "Settings":
        """Read the EPISODE_* variables.

        Raises:
            SettingsError: a variable is missing.
        """
        runner_image = os.environ.get("EPISODE_RUNNER_IMAGE")
        if not runner_image:
            raise SettingsError("EPISODE_RUNNER_IMAGE must name the image of the runner")
        namespaces = os.environ.get("EPISODE_WATCH_NAMESPACES", "")
        return cls(
            sandbox=SandboxSettings(
                runner_image=runner_image,
                require_network_policy=os.environ.get("EPISODE_REQUIRE_NETWORK_POLICY") != "false",
            ),
            watch_namespaces=tuple(name for name in namespaces.split(",") if name),
            log_level=os.environ.get("EPISODE_LOG_LEVEL", "info").upper(),
            health_port=int(os.environ.get("EPISODE_HEALTH_PORT", "8080")),
            metrics_port=int(os.environ.get("EPISODE_METRICS_PORT", "9090")),
        )
