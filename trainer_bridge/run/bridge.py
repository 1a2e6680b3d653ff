"""The bridge at work: starts groups as the trainer wants them, evaluates, and keeps order."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from episode_operator.api.labels import label_value
from episode_operator.kube.client import ApiError
from trainer_bridge import metrics
from trainer_bridge.config import EvalHandling
from trainer_bridge.run.context import Context
from trainer_bridge.run.evaluations import Evaluations
from trainer_bridge.run.training_groups import TrainingGroups
from trainer_bridge.sinks.base import Demand
from trainer_bridge.statistics.evaluation import EvaluationReport

logger = logging.getLogger(__name__)

T = TypeVar("T")

RUN_ENDED = "RunEnded"

_LOOK_SECONDS = 1.0
_CHART_SECONDS = 60.0
_SWEEP_SECONDS = 60.0
_SETTLE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How a run stands, for whoever watches.

    Attributes:
        wanted: groups that `process` makes; None where the trainer says when it is enough.
        demand: what the trainer wanted last.
        evaluating: tries of the evaluation under way that ended, of how many; None without one.
    """

    wanted: int | None
    demand: Demand
    in_flight: int
    evaluating: tuple[int, int] | None = None


class Bridge:
    """Works on a run until it is over, or until it is cancelled: what is open then stays open."""

    def __init__(
        self, context: Context, *, show: Callable[[Progress], None] = lambda progress: None
    ) -> None:
        self._context = context
        self._show = show
        self._groups = TrainingGroups(context)
        self._evaluations = Evaluations(context, self._evaluation_progress)
        self._workers: dict[asyncio.Task[None], int] = {}
        self._evaluation: asyncio.Task[EvaluationReport] | None = None
        self._tried: tuple[int, int] | None = None
        self._charted = time.monotonic()
        self._noting: asyncio.Task[list[int]] | None = None

    async def serve(self) -> None:
        """Feed the trainer until it has taken all its steps.

        Raises:
            SinkError, ApiError, ObjectStoreError, LeaseLostError: the bridge cannot go on.
        """
        await self._alongside(self._loop(None))

    async def process(self, groups: int) -> None:
        """Make so many groups, those made earlier included, and hand each to the sink.

        Raises:
            SinkError, ApiError, ObjectStoreError, LeaseLostError: the bridge cannot go on.
        """
        await self._alongside(self._loop(groups))

    async def evaluate(self, label: str) -> EvaluationReport:
        """Evaluate once; the label is of lower-case letters and digits.

        Raises:
            ApiError, ObjectStoreError, LeaseLostError, EvaluationUnreadableError, OSError: see
                `Evaluations.run`.
        """
        return await self._alongside(self._evaluate_once(label))

    async def _evaluate_once(self, label: str) -> EvaluationReport:
        self._evaluation = asyncio.create_task(self._evaluations.run(label))
        try:
            while self._evaluation not in (await self._look())[0]:
                self._show(Progress(None, Demand(), 0, self._tried))
            return self._evaluation.result()
        finally:
            await self._stop()

    async def _alongside(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work with all that runs beside it, for ever; the first error ends both."""
        working = asyncio.create_task(work)
        beside = [
            asyncio.create_task(self._context.episodes.watcher.run()),
            asyncio.create_task(self._sweep()),
            asyncio.create_task(self._context.lease.lost()),
        ]
        try:
            await asyncio.wait([working, *beside], return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                for task in beside:
                    if task.done():
                        task.result()
                self._context.lease.check()
            return await working
        finally:
            for each in (working, *beside):
                each.cancel()
            await asyncio.gather(working, *beside, return_exceptions=True)

    async def _loop(self, wanted: int | None) -> None:
        context = self._context
        for index in list(context.state.open):
            await self._groups.settle_unknown(index)
        for index in list(context.state.open):
            self._work(index, resumed=True)
        self._go_on_evaluating()
        try:
            while True:
                demand = await context.sink.demand()
                await self._take(demand)
                ended = self._ended(demand)
                if ended:
                    await self._abandon()
                over = ended or (wanted is not None and context.state.next_group >= wanted)
                if over and not self._workers and self._evaluation is None:
                    await self._sweep_once()
                    return
                if not over:
                    await self._start(demand, wanted)
                self._show(Progress(wanted, demand, len(self._workers), self._tried))
                await self._wait()
        finally:
            await self._stop()
            self._chart()

    def _ended(self, demand: Demand) -> bool:
        """Whether the trainer has taken all its steps."""
        state, total = self._context.state, self._context.config.env.total_steps
        return demand.finished or (
            total is not None and state.step is not None and state.step >= total
        )

    async def _take(self, demand: Demand) -> None:
        """Note what the trainer says of itself."""
        context = self._context
        metrics.demanded(demand)
        if demand.step is not None and demand.step != context.state.step:
            self._chart()
            context.state.step = demand.step
        if demand.lost:
            self._noting = asyncio.create_task(self._note_lost(demand.lost))
            for index in await asyncio.shield(self._noting):
                self._work(index, resumed=True)
        if time.monotonic() - self._charted >= _CHART_SECONDS:
            self._chart()

    async def _note_lost(self, lost: tuple[str, ...]) -> list[int]:
        """Open again what the trainer has lost: told once, so stored come what may."""
        logger.warning("the trainer restarted, and has lost %s", ", ".join(lost))
        state = self._context.state
        names = {str(self._groups.name(index)): index for index in state.recent}
        opened = state.lose(names[name] for name in lost if name in names)
        for index, group in state.open.items():
            group.lost |= str(self._groups.name(index)) in lost
        await self._context.save()
        return opened

    async def _start(self, demand: Demand, wanted: int | None) -> None:
        """Start what is wanted now: an evaluation when it is time, and groups."""
        context, env = self._context, self._context.config.env
        await self._evaluate_when_due()
        most = env.max_num_workers if demand.groups is None else demand.groups
        most = min(most, env.max_num_workers)
        if self._evaluation is not None:
            match env.eval_handling:
                case EvalHandling.STOP_TRAIN:
                    most = 0
                case EvalHandling.LIMIT_TRAIN:
                    most = (most + 1) // 2
        if not self._groups.pacing.may_start(time.monotonic()):
            most = 0
        while len(self._workers) < most and (wanted is None or context.state.next_group < wanted):
            task = context.catalog.task(context.state.next_group)
            index = context.state.start(task.name, members=env.group_size, step=context.state.step)
            await context.save()
            self._work(index, resumed=False)

    async def _evaluate_when_due(self) -> None:
        state, every = self._context.state, self._context.config.env.steps_per_eval
        if every is None or state.step is None or not self._evaluations.tasks:
            return
        if state.evaluation_due(every):
            state.evaluate(state.step)
            await self._context.save()
            self._go_on_evaluating()

    def _go_on_evaluating(self) -> None:
        """Start the evaluation that the state says is under way."""
        if self._evaluating is not None:
            self._evaluation = asyncio.create_task(self._evaluations.run(self._evaluating))

    def _work(self, index: int, *, resumed: bool) -> None:
        task = asyncio.create_task(self._groups.run(index, resumed=resumed), name=f"group {index}")
        self._workers[task] = index
        metrics.GROUPS_IN_FLIGHT.set(len(self._workers))

    async def _wait(self) -> None:
        """Until a group or the evaluation ends, or it is time to look again."""
        done, running = await self._look()
        for task in done:
            if task is self._evaluation:
                await self._evaluated(task.result())
            else:
                self._workers.pop(task)
                task.result()
        metrics.GROUPS_IN_FLIGHT.set(len(self._workers))
        if not running:
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self) -> tuple[set[asyncio.Task[Any]], set[asyncio.Task[Any]]]:
        """What has ended of all that is under way, and what it was, after a second at most."""
        running: set[asyncio.Task[Any]] = set(self._workers)
        if self._evaluation is not None:
            running.add(self._evaluation)
        if not running:
            return set(), running
        done, _ = await asyncio.wait(
            running, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        return done, running

    async def _evaluated(self, report: EvaluationReport) -> None:
        state = self._context.state
        self._evaluation = self._tried = None
        state.evaluated, state.evaluating = state.evaluating, None
        state.evaluation = report.values
        self._context.charts.log(report.values, state.evaluated)
        await self._context.save()

    async def _abandon(self) -> None:
        """The run is over: what is open is of no use any more. An evaluation goes on."""
        await self._stop_workers()
        for index in list(self._context.state.open):
            await self._groups.abandon(index, RUN_ENDED, "the trainer has taken all its steps")
        await self._context.save()

    async def _stop(self) -> None:
        """Stop all work, but let a send that is under way come to its end."""
        if self._evaluation is not None:
            self._evaluation.cancel()
            await asyncio.gather(self._evaluation, return_exceptions=True)
        if self._noting is not None:
            await self._noting
        await self._stop_workers()

    async def _stop_workers(self) -> None:
        for task in self._workers:
            task.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        self._workers.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_SECONDS):
                await self._groups.settle()

    def _chart(self) -> None:
        """Log what was gathered since the last time."""
        context = self._context
        fresh = list(self._groups.fresh)
        self._groups.fresh.clear()
        values = context.statistics.collect()
        if values:
            context.charts.log(values, context.state.step)
        if fresh:
            context.charts.rollouts(fresh, context.state.step)
        self._charted = time.monotonic()

    def _evaluation_progress(self, done: int, total: int) -> None:
        self._tried = (done, total)

    async def _sweep(self) -> None:
        """Now and then, delete what closed groups left."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            await self._sweep_once()

    async def _sweep_once(self) -> None:
        context = self._context
        try:
            await context.episodes.sweep(
                self._needed, older_than=context.config.env.result_ttl_seconds
            )
        except ApiError as error:
            logger.warning("sweeping: %s", error)

    def _needed(self, group: str) -> bool:
        """Whether a group, by its label, is open, or a try of an evaluation that goes on."""
        opened = {label_value(str(self._groups.name(i))) for i in self._context.state.open}
        evaluating = self._evaluating is not None and f"-eval-{self._evaluating}-" in group
        return group in opened or evaluating or group in self._evaluations.groups

    @property
    def _evaluating(self) -> str | None:
        """Label of the evaluation that the state says is under way."""
        state = self._context.state
        return None if state.evaluating is None else f"e{state.evaluations}s{state.evaluating}"
