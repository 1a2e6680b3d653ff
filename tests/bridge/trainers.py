"""A trainer that keeps what it gets, and the sink that leads to it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from trainer_bridge.sinks.base import Demand
from trainer_bridge.training import TrainingGroup


async def _nothing(group: TrainingGroup) -> None:
    """What happens around most sends."""


@dataclass
class Trainer:
    """It outlives bridges.

    Attributes:
        demand: what it wants; what it has lost is told once.
        received: the groups that arrived, in their order.
        before, after: called when a group is sent, and once it has arrived; an error is what the
            sender is told.
        arrived: what it can prove about a group.
    """

    demand: Demand = field(default_factory=Demand)
    received: list[TrainingGroup] = field(default_factory=list)
    before: Callable[[TrainingGroup], Awaitable[None]] = _nothing
    after: Callable[[TrainingGroup], Awaitable[None]] = _nothing
    arrived: Callable[[TrainingGroup], bool | None] = lambda group: None

    @property
    def names(self) -> list[str]:
        """Names of the groups that arrived."""
        return [group.name for group in self.received]

    def reset(self) -> None:
        """Whatever happens around sends happens no more."""
        self.before = self.after = _nothing


class TrainerSink:
    """The way of one bridge to a trainer."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    async def open(self) -> None:
        """It is there."""

    async def demand(self) -> Demand:
        """What the trainer wants."""
        told = self._trainer.demand
        self._trainer.demand = Demand(groups=told.groups, step=told.step, finished=told.finished)
        return told

    def check(self, group: TrainingGroup) -> None:
        """All groups are welcome."""

    async def send(self, group: TrainingGroup) -> None:
        """Hand it over."""
        await self._trainer.before(group)
        self._trainer.received.append(group)
        await self._trainer.after(group)

    async def arrived(self, group: TrainingGroup) -> bool | None:
        """What the trainer can prove."""
        return self._trainer.arrived(group)

    async def close(self) -> None:
        """Nothing is kept open."""
