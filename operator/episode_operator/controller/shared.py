"""What all Episodes of an operator share."""

from dataclasses import dataclass

import aiohttp

from episode_operator.controller.agents import AgentFactory
from episode_operator.controller.distillation import Distiller
from episode_operator.kube.client import KubernetesClient
from episode_operator.results.objects import ObjectStore
from episode_operator.sandbox.network import Cluster
from episode_operator.sandbox.pod import SandboxSettings
from episode_operator.tracing import SpanExport


@dataclass(frozen=True, slots=True)
class Shared:
    """Connections, and what the installation and the cluster decide; times in seconds."""

    client: KubernetesClient
    http: aiohttp.ClientSession
    agents: AgentFactory
    distiller: Distiller
    settings: SandboxSettings
    cluster: Cluster
    first_backoff_seconds: float
    session_retry_seconds: float
    """How long a session that was lost is opened again before its attempt has failed."""
    store: ObjectStore | None
    spans: SpanExport | None
    """Where traces go; None where nothing is traced."""
