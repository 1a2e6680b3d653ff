"""Evaluates the policy on the tasks that are held out."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from episode_operator.api.labels import label_value
from episode_operator.api.reasons import Verdict
from episode_operator.api.result import EpisodeResult
from episode_operator.results.record import EpisodeRecord
from trainer_bridge import metrics
from trainer_bridge.run import plan
from trainer_bridge.run.context import Context
from trainer_bridge.run.groups import Drop
from trainer_bridge.run.members import Members
from trainer_bridge.run.names import GroupName
from trainer_bridge.run.training_groups import TASK_UNREADABLE
from trainer_bridge.sources import Task, Unreadable
from trainer_bridge.statistics import evaluation_files
from trainer_bridge.statistics.evaluation import EvaluatedTask, EvaluationReport, score

logger = logging.getLogger(__name__)


class Evaluations:
    """Runs evaluations, one at a time. Their Episodes are never handed to the trainer.

    Attributes:
        groups: names of the tries of the evaluation under way.
    """

    def __init__(self, context: Context, progress: Callable[[int, int], None]) -> None:
        self._context = context
        self._progress = progress
        self.groups: set[str] = set()

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks of each evaluation: the same ones every time."""
        return self._context.catalog.evaluation[: self._context.config.env.num_eval_tasks]

    async def run(self, label: str) -> EvaluationReport:
        """Try every task; the label, of lower-case letters and digits, names the Episodes.

        Called again with the same label it goes on with the Episodes that are there, or gives the
        report that is there.

        Raises:
            ApiError, ObjectStoreError, LeaseLostError: the bridge cannot go on.
            EvaluationUnreadableError, OSError: the files cannot be read or written.
        """
        env, started = self._context.config.env, datetime.now(UTC)
        folder = env.eval_folder / f"{self._context.config.run}-{self._context.state.uid}-{label}"
        kept = await asyncio.to_thread(evaluation_files.read, folder)
        if kept is not None:
            return kept
        tried = await self._tried(label)
        report = score(tried, k=env.pass_at)
        metrics.evaluated(report.values)
        model = self._context.config.episode.model
        await asyncio.to_thread(
            evaluation_files.write,
            folder,
            report,
            tried,
            evaluation_files.EvaluationDetails(
                name=self._context.config.run,
                model=model.name if model is not None else "",
                generation_parameters=model.sampling.to_api() if model is not None else {},
                started_at=started,
                finished_at=datetime.now(UTC),
            ),
        )
        return report

    async def _tried(self, label: str) -> list[EvaluatedTask]:
        env, run = self._context.config.env, self._context.config.run
        places = asyncio.Semaphore(env.max_eval_workers)
        tries = [(task, sample) for task in self.tasks for sample in range(env.eval_samples)]
        names = [GroupName.evaluation(run, label, task.name, sample) for task, sample in tries]
        self.groups = {label_value(str(name)) for name in names}
        done = 0

        async def one(name: GroupName, task: Task) -> EpisodeRecord | None:
            nonlocal done
            async with places:
                found = await self._try(name, task)
            done += 1
            self._progress(done, len(tries))
            return found

        running = [
            asyncio.create_task(one(name, task))
            for name, (task, _) in zip(names, tries, strict=True)
        ]
        try:
            found = await asyncio.gather(*running)
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        records = [
            [record for record, (of, _) in zip(found, tries, strict=True) if of is task]
            for task in self.tasks
        ]
        self.groups = set()
        return [
            EvaluatedTask(
                task.name,
                task.family,
                tuple(record for record in own if record is not None),
                unrecorded=sum(record is None for record in own),
            )
            for task, own in zip(self.tasks, records, strict=True)
        ]

    async def _try(self, name: GroupName, task: Task) -> EpisodeRecord | None:
        """One try of a task: a record, without a verdict where there is none; None without any."""
        context = self._context
        tries = {0: 0}

        async def rerun(member: int, reason: str) -> None:
            tries[member] += 1
            metrics.run_again(reason)

        members = Members(
            context.episodes,
            name,
            lambda member: plan.build(task, context.config.episode, name, member),
            count=1,
            tries=tries,
            reruns_left=1,
            on_rerun=rerun,
        )
        try:
            ended = await members.finish(resumed=True)
        except Unreadable as error:
            ended = Drop(TASK_UNREADABLE, str(error))
        results = await context.episodes.results(name)
        await context.episodes.delete(name)
        if not isinstance(ended, Drop):
            metrics.episode_ended(ended[0].result.spec)
            return ended[0]
        if ended.no_verdict is not None:
            metrics.no_verdict(ended.no_verdict)
        logger.warning("%s (%s) has no verdict: %s", name, task.name, ended.message)
        return _last(results)


def _last(results: Sequence[EpisodeResult]) -> EpisodeRecord | None:
    """The last result, if it says that there is no verdict: one that was refused says nothing."""
    by_age = sorted(results, key=lambda result: result.spec.finished_at)
    if not by_age or by_age[-1].spec.verdict is not Verdict.NO_VERDICT:
        return None
    return EpisodeRecord(by_age[-1])
