"""kopf wiring only: handlers that parse and call."""

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import kopf
from prometheus_client import REGISTRY, start_http_server
from stamina.instrumentation import RetryDetails, set_on_retry_hooks

from episode_operator import tracing
from episode_operator.api.base import GROUP, VERSION
from episode_operator.api.labels import EPISODE_UID
from episode_operator.controller import loop_lag, metrics
from episode_operator.controller.agents import AgentFactory
from episode_operator.controller.controller import Alone, Controller
from episode_operator.controller.distillation import Distiller
from episode_operator.controller.models import ModelPool
from episode_operator.controller.shared import Shared
from episode_operator.controller.starts import StartWatch
from episode_operator.controller.sweeper import Sweeper
from episode_operator.controller.teachers import Teachers
from episode_operator.kube import connection
from episode_operator.kube.client import KubernetesClient
from episode_operator.kube.loopback import serving
from episode_operator.kube.membership import Membership
from episode_operator.sandbox.network import discover
from episode_operator.sandbox.policy import policy_kinds
from episode_operator.settings import Settings
from episode_operator.view import View

logger = logging.getLogger(__name__)

Memo = kopf.Memo


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, memo: Memo, **_: Any) -> None:
    """Connect, before the first event comes."""
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.watching.server_timeout = 300
    memo.client = KubernetesClient(await connection.load(), on_write=metrics.api_write)
    memo.http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    memo.models = ModelPool(retry_seconds=memo.settings.model_retry_seconds)
    shared = Shared(
        memo.client,
        memo.http,
        AgentFactory(memo.models),
        Distiller(memo.client, memo.http, Teachers(memo.models), memo.settings.object_store),
        memo.settings.sandbox,
        await discover(memo.client),
        first_backoff_seconds=memo.settings.retry_backoff_seconds,
        session_retry_seconds=memo.settings.session_retry_seconds,
        store=memo.settings.object_store,
        spans=memo.spans,
    )
    replica = memo.settings.replica
    memo.membership = Membership(memo.client, replica) if replica is not None else None
    memo.controller = Controller(shared, memo.membership or Alone())
    REGISTRY.register(metrics.EpisodesCollector(memo.controller.places))
    sweeper = Sweeper(
        memo.client,
        memo.settings.namespaces,
        policies=policy_kinds(shared.cluster),
        live=memo.controller.live,
        interval_seconds=memo.settings.sweep_interval_seconds,
    )
    starts = StartWatch(
        memo.client, memo.settings.namespaces.watched, memo.controller.sandbox_started
    )
    memo.background = [
        asyncio.create_task(sweeper.run(), name="sweeper"),
        asyncio.create_task(starts.run(), name="starts"),
        asyncio.create_task(loop_lag.measure(), name="loop lag"),
    ]
    memo.view = AsyncExitStack()
    view = View(memo.client, memo.settings.object_store, memo.controller.conversation)
    await memo.view.enter_async_context(serving(view.application, memo.settings.view_port))
    if memo.membership is not None:
        await memo.membership.look()
        metrics.REPLICAS.set_function(lambda: len(memo.membership.members))
        sharing = memo.membership.run(memo.controller.rebalance)
        memo.background.append(asyncio.create_task(sharing, name="membership"))


@kopf.on.cleanup()
async def stop(memo: Memo, **_: Any) -> None:
    """Let go of all Episodes; they go on with the next operator."""
    for task in memo.background:
        task.cancel()
    await memo.view.aclose()
    await memo.controller.close()
    if memo.membership is not None:
        await memo.membership.leave()
    await memo.models.close()
    await memo.http.close()
    await memo.client.close()
    if memo.spans is not None:
        await asyncio.to_thread(memo.spans.close)


def is_ours(namespace: str | None, memo: Memo, **_: Any) -> bool:
    """Whether the namespace is this operator's; others may be another's."""
    assert namespace is not None, "Episodes and pods are namespaced"
    included: bool = memo.settings.namespaces.include(namespace)
    return included


@kopf.on.event(GROUP, VERSION, "episodes", when=is_ours)
async def on_episode(type: str | None, body: kopf.Body, memo: Memo, **_: Any) -> None:
    """An Episode changed."""
    await memo.controller.episode_event(type, dict(body))


@kopf.on.event("", "v1", "pods", labels={EPISODE_UID: kopf.PRESENT}, when=is_ours)
async def on_pod(type: str | None, body: kopf.Body, memo: Memo, **_: Any) -> None:
    """A pod of an Episode changed."""
    memo.controller.pod_event(type, dict(body))


def log_retry(details: RetryDetails) -> None:
    """Say what is tried again, and why."""
    logger.warning(
        "%s: attempt %d failed with %r; again in %.1f s",
        details.name,
        details.retry_num,
        details.caused_by,
        details.wait_for,
    )


def set_up_logging(level: str) -> None:
    """Log to standard error, without a line for every event and every probe."""
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for noisy in ("kopf.objects", "aiohttp.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    set_on_retry_hooks([log_retry])


def main() -> None:
    """Run the operator until it is told to stop."""
    settings = Settings.from_environment()
    set_up_logging(settings.log_level)
    spans = tracing.from_environment()
    start_http_server(settings.metrics_port)
    asyncio.run(
        kopf.operator(
            standalone=True,
            clusterwide=not settings.namespaces.watched,
            namespaces=settings.namespaces.watched,
            liveness_endpoint=f"http://0.0.0.0:{settings.health_port}/healthz",
            memo=kopf.Memo(settings=settings, spans=spans),
        )
    )


if __name__ == "__main__":
    main()
