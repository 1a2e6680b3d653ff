"""Puts a run together from its configuration, and takes it apart again."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from prometheus_client import start_http_server

from episode_operator.kube import connection
from episode_operator.kube.client import KubernetesClient
from trainer_bridge.charts.wandb_charts import open_charts
from trainer_bridge.config import BridgeConfig
from trainer_bridge.run.context import Context
from trainer_bridge.run.episodes import RunEpisodes
from trainer_bridge.run.lease import RunLease
from trainer_bridge.run.state import RunState, StateStore
from trainer_bridge.sources.catalog import Catalog
from trainer_bridge.statistics.rollouts import RolloutStatistics


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a run is stored."""

    client: KubernetesClient
    namespace: str

    def state(self, run: str) -> StateStore:
        """The state of a run."""
        return StateStore(self.client, namespace=self.namespace, run=run)


@asynccontextmanager
async def stored(namespace: str | None) -> AsyncIterator[Stored]:
    """The cluster of the kubeconfig, or of this pod.

    Raises:
        kubernetes.aio.config.ConfigException: there is none.
    """
    async with KubernetesClient(await connection.load()) as client:
        yield Stored(client, namespace or client.connection.namespace)


@asynccontextmanager
async def opened(
    config: BridgeConfig,
    catalog: Catalog,
    *,
    different_scores: bool,
    feeding: bool = True,
    waiting: Callable[[str], None],
) -> AsyncIterator[Context]:
    """The run, which no other bridge works on meanwhile.

    Args:
        feeding: whether groups are handed over: else the sink is not opened.
        waiting: told the holder of the lease that has to be waited for.

    Raises:
        kubernetes.aio.config.ConfigException: there is no cluster.
        ConfigError, SinkError, StateError, ObjectStoreError, WandbMissingError, OSError: the run
            cannot be begun.
    """
    objects = config.store
    async with AsyncExitStack() as stack:
        where = await stack.enter_async_context(stored(config.namespace))
        lease = await stack.enter_async_context(
            RunLease(where.client, namespace=where.namespace, run=config.run, waiting=waiting)
        )
        store = where.state(config.run)
        state = await store.load()
        if state is None:
            state = RunState(uid=uuid.uuid4().hex[:8])
            await store.begin(state)
        sink = config.make_sink(state.uid)
        charts = await asyncio.to_thread(open_charts, config.charts, run=config.run, uid=state.uid)
        stack.push_async_callback(charts.close)
        if config.metrics_port is not None:
            server, _ = start_http_server(config.metrics_port)
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
        if feeding:
            await sink.open()
            stack.push_async_callback(sink.close)
        yield Context(
            config=config,
            catalog=catalog,
            episodes=RunEpisodes(
                where.client, lease, namespace=where.namespace, run=config.run, store=objects
            ),
            state=state,
            store=store,
            lease=lease,
            sink=sink,
            charts=charts,
            statistics=RolloutStatistics(max_token_length=config.env.max_token_length),
            different_scores=different_scores,
        )
