"""What all parts of a running bridge share."""

import asyncio
from dataclasses import dataclass, field

from trainer_bridge.charts.base import Charts
from trainer_bridge.config import BridgeConfig
from trainer_bridge.run.episodes import RunEpisodes
from trainer_bridge.run.lease import RunLease
from trainer_bridge.run.state import RunState, StateStore
from trainer_bridge.sinks.base import Sink
from trainer_bridge.sources.catalog import Catalog
from trainer_bridge.statistics.rollouts import RolloutStatistics


@dataclass(frozen=True, slots=True)
class Context:
    """One run, as this bridge works on it.

    Attributes:
        different_scores: drop groups whose scores are all equal.
    """

    config: BridgeConfig
    catalog: Catalog
    episodes: RunEpisodes
    state: RunState
    store: StateStore
    lease: RunLease
    sink: Sink
    charts: Charts
    statistics: RolloutStatistics
    different_scores: bool

    saving: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def save(self) -> None:
        """Store the state as it is now, one after the other.

        Raises:
            LeaseLostError: another bridge may be at work.
            ApiError: the API server does not take it.
        """
        async with self.saving:
            await self.lease.insist(lambda: self.store.save(self.state))
