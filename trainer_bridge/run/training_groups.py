"""The life of a training group: its Episodes, the decision, the delivery."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any

from episode_operator.api.result import Delivery, EpisodeResult
from episode_operator.results.finding import RecordMissing
from episode_operator.results.record import EpisodeRecord
from trainer_bridge import metrics
from trainer_bridge.config import UnknownDelivery
from trainer_bridge.run import delivery, plan
from trainer_bridge.run.context import Context
from trainer_bridge.run.groups import Drop, refusal
from trainer_bridge.run.members import Members
from trainer_bridge.run.names import GroupName
from trainer_bridge.run.pacing import Pacing
from trainer_bridge.sinks.base import NotSentError, RefusedError, SinkError, UnknownArrivalError
from trainer_bridge.sources import Task, Unreadable
from trainer_bridge.training import TrainingGroup

logger = logging.getLogger(__name__)

TASK_UNREADABLE = "TaskUnreadable"

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 15.0
_LOST = "the trainer restarted before it took the group"


class TrainingGroups:
    """Works on the groups that are open in the state; many at once, one of them sending.

    Attributes:
        fresh: groups delivered since somebody emptied this, as many as charts show.
        pacing: when a new one may start.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sending = asyncio.Lock()
        self._reading = asyncio.Semaphore(context.config.env.max_num_workers)
        self._attempts: set[asyncio.Task[bool]] = set()
        self._resent: set[int] = set()
        self._counted: set[int] = set()
        self.pacing = Pacing()
        self.fresh: deque[TrainingGroup] = deque(maxlen=context.config.charts.rollouts_kept)

    def name(self, index: int) -> GroupName:
        """Name of a group."""
        return GroupName.training(self._context.config.run, index)

    async def run(self, index: int, *, resumed: bool) -> None:
        """Take an open group to its end: Delivered or Dropped.

        Raises:
            SinkError, ApiError, ObjectStoreError, LeaseLostError: the bridge cannot go on; the
                group stays open.
        """
        context = self._context
        opened = context.state.open[index]
        if resumed and not opened.lost and await self._closed_before(index):
            return
        task = context.catalog.named(opened.task)
        if task is None:
            missing = f"task {opened.task} is not in the source any more"
            await self.abandon(index, TASK_UNREADABLE, missing)
        elif opened.lost:
            await self._recover(index, task)
        else:
            await self._work(index, task, resumed=resumed)

    async def settle_unknown(self, index: int) -> None:
        """Look for proof that a group of an earlier bridge arrived, before any other is sent.

        Raises:
            SinkError, ApiError, ObjectStoreError, LeaseLostError: the bridge cannot go on.
        """
        results = await self._results(index)
        if self._where(results) is not Delivery.UNKNOWN or self._context.state.open[index].lost:
            return
        task = self._context.catalog.named(self._context.state.open[index].task)
        group = None if task is None else await self._again(index, task, results)
        message = "the bridge ended between the send and its record"
        if group is None:
            await self.abandon(index, delivery.UNKNOWN_ARRIVAL, message)
        elif not await self._resolve_unknown(index, group, message):
            self._resent.add(index)

    async def abandon(self, index: int, reason: str, message: str) -> None:
        """Close an open group that nobody works on: it is dropped unless it was delivered."""
        if self._context.state.open[index].lost:
            await self._drop(index, Drop(delivery.LOST_WITH_TRAINER, message))
        elif await self._closed_before(index):
            return
        elif self._where(await self._results(index)) is Delivery.UNKNOWN:
            self._context.state.unknown += 1
            await self._drop(index, Drop(delivery.UNKNOWN_ARRIVAL, message))
        else:
            await self._drop(index, Drop(reason, message))

    async def settle(self) -> None:
        """Wait for the send that is under way, if any: its end is then known; raises its error."""
        await asyncio.gather(*self._attempts)

    async def _results(self, index: int) -> list[EpisodeResult]:
        """Results of the current members: not those that another Episode took the place of."""
        name, opened = self.name(index), self._context.state.open[index]
        current = {
            name.episode(member, opened.tries.get(member, 0)) for member in range(opened.members)
        }
        found = await self._context.episodes.results(name)
        return [result for result in found if result.spec.episode.name in current]

    @staticmethod
    def _where(results: Sequence[EpisodeResult]) -> Delivery:
        return delivery.resolve([result.status.delivery for result in results])

    async def _closed_before(self, index: int) -> bool:
        """Close a group that an earlier bridge delivered or dropped, but for the record of it."""
        results = await self._results(index)
        match self._where(results):
            case Delivery.DELIVERED:
                await self._context.episodes.mark(results, Delivery.DELIVERED)
                await self._clear(index, results)
                self._context.state.deliver(index)
                await self._closed(index)
            case Delivery.DROPPED:
                reasons = [result.status.reason for result in results if result.status.reason]
                await self._drop(index, Drop(reasons[0], "it was dropped before a restart"))
            case _:
                return False
        return True

    async def _work(self, index: int, task: Task, *, resumed: bool) -> None:
        context = self._context
        try:
            ended = await self._members(index, task).finish(resumed=resumed)
        except Unreadable as error:
            await self.abandon(index, TASK_UNREADABLE, str(error))
            return
        if isinstance(ended, Drop):
            if ended.no_verdict is not None:
                context.statistics.add_no_verdict(ended.no_verdict)
                metrics.no_verdict(ended.no_verdict)
            if pause := self.pacing.incomplete(time.monotonic()):
                logger.warning("no group starts for %.0f s, as %s", pause, ended.message)
            await self._drop(index, ended)
            return
        self.pacing.complete()
        for record in ended:
            metrics.episode_ended(record.result.spec)
        if index not in self._resent:
            await context.episodes.mark([each.result for each in ended], Delivery.PENDING)
        await self._send(index, self._group(index, task, ended))

    async def _recover(self, index: int, task: Task) -> None:
        """A group that the trainer had, and lost: drop it, or send it again."""
        context = self._context
        results = await self._results(index)
        await context.episodes.mark(
            results, Delivery.UNKNOWN, reason=delivery.LOST_WITH_TRAINER, message=_LOST
        )
        metrics.unknown()
        group = None
        if context.config.env.unknown_delivery is UnknownDelivery.RESEND:
            async with self._reading:
                group = await self._again(index, task, results)
        if group is None:
            await self._drop(index, Drop(delivery.LOST_WITH_TRAINER, _LOST))
        else:
            self._resent.add(index)
            self._counted.add(index)
            await self._send(index, group)

    def _members(self, index: int, task: Task) -> Members:
        context, name = self._context, self.name(index)
        state = context.state

        async def rerun(member: int, reason: str) -> None:
            state.rerun(index, member, reason)
            metrics.run_again(reason)
            context.statistics.add_no_verdict(reason)
            logger.info("%s: member %d has no verdict (%s); run again", name, member, reason)
            await context.save()

        return Members(
            context.episodes,
            name,
            lambda member: plan.build(task, context.config.episode, name, member),
            count=state.open[index].members,
            tries=state.open[index].tries,
            reruns_left=context.config.env.reruns - state.reruns_of(index),
            on_rerun=rerun,
        )

    def _group(self, index: int, task: Task, members: Sequence[EpisodeRecord]) -> TrainingGroup:
        return TrainingGroup(
            name=str(self.name(index)),
            task=task.name,
            family=task.family,
            step=self._context.state.open[index].step,
            members=tuple(members),
        )

    async def _again(
        self, index: int, task: Task, results: Sequence[EpisodeResult]
    ) -> TrainingGroup | None:
        """A group that was sent once, read again; None if not all of it is there."""
        records: dict[int, EpisodeRecord] = {}
        for result in results:
            try:
                read = await self._context.episodes.read(
                    result.metadata["name"], harness=result.spec.harness
                )
            except RecordMissing:
                return None
            if isinstance(read, EpisodeRecord) and result.spec.group is not None:
                records[result.spec.group.member] = read
        members = range(self._context.state.open[index].members)
        if records.keys() != set(members):
            return None
        return self._group(index, task, [records[member] for member in members])

    async def _send(self, index: int, group: TrainingGroup) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while not await self._shielded(self._attempt(index, group)):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _shielded(self, attempt: Coroutine[Any, Any, bool]) -> bool:
        """Let it come to its end even where the bridge is stopped meanwhile: see `settle`."""
        task = asyncio.create_task(attempt)
        self._attempts.add(task)
        task.add_done_callback(self._attempted)
        return await asyncio.shield(task)

    def _attempted(self, task: asyncio.Task[bool]) -> None:
        self._attempts.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("handing over a group failed: %s", error)

    async def _attempt(self, index: int, group: TrainingGroup) -> bool:
        """Try to send once; False if it is to be tried again."""
        context = self._context
        episodes, results = context.episodes, [record.result for record in group.members]
        async with self._sending:
            found = refusal(
                group,
                different_scores=context.different_scores,
                step=context.state.step,
                max_steps=context.config.env.max_staleness_steps,
            )
            try:
                if found is None:
                    context.sink.check(group)
                    await episodes.mark(results, Delivery.SENDING)
                    await self._not_lost_any_more(index)
                    context.lease.check()
                    with metrics.SEND_SECONDS.time():
                        await context.sink.send(group)
            except RefusedError as error:
                found = Drop(error.reason, str(error))
            except NotSentError as error:
                logger.warning("%s is not sent: %s", group.name, error)
                await episodes.mark(results, Delivery.PENDING)
                return False
            except UnknownArrivalError as error:
                return await self._resolve_unknown(index, group, str(error))
            except SinkError:
                await episodes.mark(results, Delivery.PENDING)
                raise
            if found is None:
                return await self._delivered(index, group)
            await self._drop(index, found, group)
            return True

    async def _not_lost_any_more(self, index: int) -> None:
        """From the next send on its marks say where a group is that was lost before."""
        if self._context.state.open[index].lost:
            self._context.state.open[index].lost = False
            await self._context.save()

    async def _resolve_unknown(self, index: int, group: TrainingGroup, message: str) -> bool:
        """Find out, or decide by the user's policy; False if the group is to be sent again."""
        context = self._context
        context.state.unknown += 1
        metrics.unknown()
        logger.warning("%s may or may not have arrived: %s", group.name, message)
        await context.episodes.mark(
            [record.result for record in group.members],
            Delivery.UNKNOWN,
            reason=delivery.UNKNOWN_ARRIVAL,
            message=message,
        )
        await context.save()
        arrived = await context.sink.arrived(group)
        if arrived:
            return await self._delivered(index, group)
        if arrived is False or context.config.env.unknown_delivery is UnknownDelivery.RESEND:
            return False
        await self._drop(index, Drop(delivery.UNKNOWN_ARRIVAL, message), group)
        return True

    async def _delivered(self, index: int, group: TrainingGroup) -> bool:
        """The trainer has taken the group; False if it has lost it already and wants it again."""
        context = self._context
        results = [record.result for record in group.members]
        await context.episodes.mark(results, Delivery.DELIVERED)
        if index not in self._counted:
            self._counted.add(index)
            metrics.delivered(group, step=context.state.step)
            context.statistics.add(group, step=context.state.step)
            self.fresh.append(group)
        await self._clear(index, results)
        if context.state.open[index].lost:
            return await self._lost_already(index, group)
        context.state.deliver(index)
        await self._closed(index)
        return True

    async def _lost_already(self, index: int, group: TrainingGroup) -> bool:
        """The trainer has lost a group before its delivery was noted."""
        context = self._context
        context.state.unknown += 1
        results = [record.result for record in group.members]
        await context.episodes.mark(
            results, Delivery.UNKNOWN, reason=delivery.LOST_WITH_TRAINER, message=_LOST
        )
        if context.config.env.unknown_delivery is UnknownDelivery.RESEND:
            return False
        await self._drop(index, Drop(delivery.LOST_WITH_TRAINER, _LOST))
        return True

    async def _drop(self, index: int, found: Drop, group: TrainingGroup | None = None) -> None:
        context, name = self._context, self.name(index)
        logger.warning("%s is dropped: %s: %s", name, found.reason, found.message)
        await context.episodes.delete(name)
        results = await self._results(index)
        await context.episodes.mark(
            results, Delivery.DROPPED, reason=found.reason, message=found.message
        )
        metrics.dropped(found.reason)
        if group is not None:
            context.statistics.add(group, step=context.state.step, dropped=found.reason)
        await self._clear(index, results)
        context.state.drop(index, found.reason)
        await self._closed(index)

    async def _clear(self, index: int, members: Sequence[EpisodeResult]) -> None:
        """Nothing of a group runs on; results that are not of its members are dropped.

        It comes before the state says that the group is closed: nobody looks at it again then.
        """
        episodes, name = self._context.episodes, self.name(index)
        await episodes.delete(name)
        own = {result.metadata["uid"] for result in members}
        found = await episodes.results(name)
        await episodes.mark(
            [result for result in found if result.metadata["uid"] not in own],
            Delivery.DROPPED,
            reason=delivery.SUPERSEDED,
            message="another Episode took its place in the group",
        )

    async def _closed(self, index: int) -> None:
        self._resent.discard(index)
        self._counted.discard(index)
        await self._context.save()
