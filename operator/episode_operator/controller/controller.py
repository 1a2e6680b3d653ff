"""All live Episodes of this operator, each with one asyncio task."""

import asyncio
import logging
import time
from collections.abc import Collection, Iterable
from typing import Any, Protocol

from episode_operator.api.episode import Episode
from episode_operator.api.labels import EPISODE_UID, pod_name
from episode_operator.api.reasons import NoVerdictReason, Phase
from episode_operator.controller import events, metrics
from episode_operator.controller.queue import Cause, cause_of
from episode_operator.controller.shared import Shared
from episode_operator.controller.starts import Started
from episode_operator.controller.task import EpisodeTask, refresh
from episode_operator.kube.client import EPISODES, PODS, ApiError
from episode_operator.sandbox.errors import SessionSuperseded

logger = logging.getLogger(__name__)

_RESTART_SECONDS = (1.0, 60.0)
"""First and longest pause before an Episode whose task failed is taken up again."""


class Share(Protocol):
    """What is this replica's of all Episodes."""

    def owns(self, uid: str) -> bool:
        """Whether the Episode of this uid is."""

    async def refreshed(self) -> None:
        """Return when what it knows is no older than this call."""


class Alone:
    """All Episodes are this operator's: it has no other replicas."""

    def owns(self, uid: str) -> bool:
        """Always."""
        return True

    async def refreshed(self) -> None:
        """At once."""


class Controller:
    """Starts a task for every Episode of its share, and stops it when the Episode is deleted."""

    def __init__(self, shared: Shared, share: Share) -> None:
        self._shared = shared
        self._client = shared.client
        self._share = share
        self._live: dict[str, tuple[EpisodeTask, asyncio.Task[None]]] = {}
        self._by_pod: dict[tuple[str, str], EpisodeTask] = {}
        self._others: dict[str, tuple[str, str]] = {}
        self._taking: set[asyncio.Task[None]] = set()

    async def episode_event(self, kind: str | None, body: dict[str, Any]) -> None:
        """An Episode was seen (kind None), added, modified or deleted."""
        uid = body["metadata"]["uid"]
        if kind == "DELETED" or "deletionTimestamp" in body["metadata"]:
            self._others.pop(uid, None)
            await self._forget(uid, body)
            return
        if uid in self._live:
            return
        episode = Episode.model_validate(body)
        if _is_over(episode):
            self._others.pop(uid, None)
        elif self._share.owns(uid):
            self._start(episode)
        else:
            self._others[uid] = (episode.namespace, episode.name)

    def rebalance(self) -> None:
        """Let go of the Episodes that are another replica's now, and take over those of others."""
        for uid, (task, runner) in self._live.items():
            if not self._share.owns(uid):
                self._others[uid] = (task.episode.namespace, task.episode.name)
                runner.cancel()
        for uid in list(self._others):
            self._consider(uid)

    def _consider(self, uid: str) -> None:
        """Take an Episode of another replica over if it is this one's now."""
        if uid in self._others and uid not in self._live and self._share.owns(uid):
            taking = asyncio.create_task(self._take(uid), name=f"take-{uid}")
            self._taking.add(taking)
            taking.add_done_callback(self._taking.discard)

    async def _take(self, uid: str) -> None:
        """Go on with the Episode as it is now, whatever was heard of it before."""
        while uid in self._others and self._share.owns(uid):
            namespace, name = self._others[uid]
            try:
                stored = await self._client.get(EPISODES, namespace, name)
            except ApiError as error:
                logger.warning("taking %s/%s over: %s", namespace, name, error)
                await asyncio.sleep(_RESTART_SECONDS[0])
                continue
            self._others.pop(uid, None)
            if stored is not None and stored["metadata"]["uid"] == uid:
                await self.episode_event(None, stored)
            return

    def _start(self, episode: Episode) -> None:
        uid = episode.uid
        self._others.pop(uid, None)
        task = EpisodeTask(self._shared, episode)
        runner = asyncio.create_task(self._supervise(task), name=f"episode-{episode.name}")
        self._live[uid] = (task, runner)
        self._by_pod |= dict.fromkeys(_pods(episode), task)
        metrics.EPISODES_LIVE.set(len(self._live))
        runner.add_done_callback(lambda _: self._drop(uid))

    def pod_event(self, kind: str | None, body: dict[str, Any]) -> None:
        """A pod of an Episode was seen (kind None), added, modified or deleted."""
        uid = body["metadata"].get("labels", {}).get(EPISODE_UID)
        if uid in self._live:
            task = self._live[uid][0]
            if kind == "DELETED":
                task.pod_gone(body)
            task.wake()

    def sandbox_started(self, start: Started) -> None:
        """The task's container of a pod has started, maybe of an Episode."""
        task = self._by_pod.get((start.namespace, start.pod))
        if task is not None:
            task.sandbox_started(start)

    def live(self) -> Collection[str]:
        """Uids of the Episodes with work left."""
        return self._live.keys()

    def places(self) -> Iterable[tuple[Phase, Cause | None]]:
        """Phase of each Episode that has a task, and what it waits for; for any thread."""
        now = time.time()
        for task, _ in list(self._live.values()):
            status = task.episode.status
            yield status.phase or Phase.STARTING, cause_of(status, task.pod, now)

    def conversation(self, uid: str) -> list[dict[str, Any]] | None:
        """What was said so far in an Episode; None if it is not this replica's, or over."""
        return self._live[uid][0].messages if uid in self._live else None

    async def close(self) -> None:
        """Stop all tasks; their Episodes go on when the next operator starts."""
        runners = [runner for _, runner in self._live.values()] + list(self._taking)
        for runner in runners:
            runner.cancel()
        await asyncio.gather(*runners, return_exceptions=True)

    def _drop(self, uid: str) -> None:
        task, _ = self._live.pop(uid)
        for pod in _pods(task.episode):
            if self._by_pod.get(pod) is task:  # not a later Episode's of the same name
                del self._by_pod[pod]
        metrics.EPISODES_LIVE.set(len(self._live))
        self._consider(uid)

    async def _forget(self, uid: str, body: dict[str, Any]) -> None:
        """The Episode is deleted: stop at once; its pods would go anyway, but later."""
        if uid not in self._live:
            return
        _, runner = self._live[uid]
        runner.cancel()
        await asyncio.wait({runner})
        namespace = body["metadata"]["namespace"]
        for pod in await self._client.list(PODS, namespace, labels={EPISODE_UID: uid}):
            name, pod_uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            await self._client.delete(PODS, namespace, name, uid=pod_uid)

    async def _supervise(self, task: EpisodeTask) -> None:
        """Run the task; after an error of the operator itself, report it and run it again."""
        pause = _RESTART_SECONDS[0]
        while True:
            try:
                return await task.run()
            except Exception as error:
                if isinstance(error, SessionSuperseded) and not await self._is_still_ours(task):
                    return None
                episode = await self._refresh(task.episode)
                if episode is None:
                    return None  # deleted meanwhile, which is where the error came from
                metrics.INTERNAL_ERRORS.inc()
                logger.exception("%s: %s", episode.name, NoVerdictReason.INTERNAL_ERROR)
                await self._report(episode, error)
                task.episode = episode
            await asyncio.sleep(pause)
            pause = min(2 * pause, _RESTART_SECONDS[1])

    async def _is_still_ours(self, task: EpisodeTask) -> bool:
        """Whether it is, now that another session is in its pod."""
        uid = task.episode.uid
        await self._share.refreshed()
        ours = self._share.owns(uid)
        if not ours:
            self._others[uid] = (task.episode.namespace, task.episode.name)
        return ours

    async def _report(self, episode: Episode, error: Exception) -> None:
        try:
            await events.emit(
                self._client,
                episode,
                reason=NoVerdictReason.INTERNAL_ERROR,
                message=f"{type(error).__name__}: {error}; trying again",
                kind="Warning",
            )
        except Exception:
            logger.exception("%s: the event could not be written", episode.name)

    async def _refresh(self, episode: Episode) -> Episode | None:
        try:
            return await refresh(self._client, episode)
        except Exception:
            logger.exception("%s: could not be read", episode.name)
            return episode


def _pods(episode: Episode) -> list[tuple[str, str]]:
    """Namespace and name of every pod that the Episode may have."""
    attempts = range(episode.spec.infra_retry_limit + 1)
    return [(episode.namespace, pod_name(episode.name, attempt)) for attempt in attempts]


def _is_over(episode: Episode) -> bool:
    """Finished, and no time to live that could still pass."""
    return episode.status.finished and episode.spec.ttl_seconds_after_finished is None
