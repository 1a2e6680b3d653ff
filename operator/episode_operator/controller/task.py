"""The life of one Episode: observe, ask lifecycle for the next step, perform it, again."""

import asyncio
import contextlib
import logging
import time
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from typing import Any

from episode_operator.api.distillation import DistillationState
from episode_operator.api.episode import Episode, EpisodeStatus
from episode_operator.api.labels import (
    EPISODE_NAME,
    EPISODE_UID,
    FIELD_MANAGER,
    GROUP_NAME,
    RUN,
    label_value,
    pod_name,
    unique_name,
)
from episode_operator.api.reasons import NoVerdictReason, Verdict
from episode_operator.api.result import EpisodeResult
from episode_operator.controller import events, metrics, results, status
from episode_operator.controller.attempt import Attempt
from episode_operator.controller.shared import Shared
from episode_operator.controller.starts import Started
from episode_operator.controller.traces import EpisodeTrace, distillation_attributes
from episode_operator.kube.client import (
    EPISODES,
    PODS,
    AlreadyExistsError,
    ApiError,
    KubernetesClient,
    Object,
)
from episode_operator.lifecycle import pods, step
from episode_operator.lifecycle.deadlines import backoff_seconds
from episode_operator.lifecycle.outcome import Failure, Outcome
from episode_operator.lifecycle.pods import PodView
from episode_operator.results import writer
from episode_operator.results.arrays import PayloadError
from episode_operator.results.objects import ObjectStoreError
from episode_operator.sandbox.errors import SessionSuperseded
from episode_operator.sandbox.pod import build_pod
from episode_operator.sandbox.policy import HostsNeedCilium, policies

logger = logging.getLogger(__name__)

_WATCH_SECONDS = 3.0
_RECHECK_SECONDS = 30.0
"""Longest wait between two looks: a lost watch event delays an Episode, but never stops it."""


class EpisodeTask:
    """Runs one Episode to its end. `wake` is called whenever something about it changed."""

    def __init__(self, shared: Shared, episode: Episode) -> None:
        self._shared = shared
        self._client = shared.client
        self.episode = episode
        self.pod: PodView | None = None
        """The pod of the current attempt, as it was seen last."""
        self._trace = EpisodeTrace(shared.spans, episode.uid)
        self._changed = asyncio.Event()
        self._driver: asyncio.Task[Outcome] | None = None
        self._attempt: Attempt | None = None
        self._result: EpisodeResult | None = None
        self._pods: list[Object] = []
        self._refusal: Outcome | None = None
        self._gone: dict[str, PodView] = {}
        self._started: set[str] = set()
        self._status_writing = asyncio.Lock()

    @property
    def messages(self) -> list[Object]:
        """What was said in the attempt that is under way; empty before its agent acts."""
        return [] if self._attempt is None else self._attempt.messages

    def wake(self) -> None:
        """Look again now."""
        self._changed.set()

    def pod_gone(self, pod: Object) -> None:
        """A pod was deleted; what it was last says why, where Kubernetes itself took it away."""
        self._gone[pod["metadata"]["uid"]] = pods.view(pod, gone=True)

    def sandbox_started(self, start: Started) -> None:
        """A pod's sandbox has started, maybe of this Episode."""
        if (start.namespace, start.pod) == (self.episode.namespace, self.episode.status.pod_name):
            self._started.add(start.pod_uid)
            self.wake()

    async def run(self) -> None:
        """Perform steps until nothing is left to do."""
        try:
            while True:
                self._changed.clear()
                action = step.next_step(self.episode.spec, await self._observe())
                logger.debug("%s: %s", self.episode.name, action)
                if isinstance(action, step.Done):
                    return
                await self._perform(action)
        finally:
            await self._stop_driver()

    async def _observe(self) -> step.Observed:
        episode = self.episode
        if self._result is None and (self._driver is None or self._driver.done()):
            self._result = await writer.load(
                self._client,
                namespace=episode.namespace,
                name=unique_name(episode.name, episode.uid),
            )
        self._pods = await self._client.list(
            PODS, episode.namespace, labels={EPISODE_UID: episode.uid}
        )
        pod = next((p for p in self._pods if not self._is_stale(p)), None)
        view = self._view(pod) if pod is not None else await self._last_words()
        self.pod = view or self.pod
        return step.Observed(
            now=time.time(),
            created=episode.created.timestamp(),
            status=episode.status,
            pod=view,
            stale_pods=any(self._is_stale(p) for p in self._pods),
            driving=self._driver is not None and not self._driver.done(),
            outcome=self._outcome(),
            published=self._result is not None,
            distilled=episode.spec.distillation is None
            or (self._result is not None and self._result.status.distillation is not None),
        )

    def _view(self, pod: Object) -> PodView:
        view = pods.view(pod, started=pod["metadata"]["uid"] in self._started)
        if self._attempt is not None:
            self._attempt.pod_seen(view)
        return view

    async def _last_words(self) -> PodView | None:
        """The recorded pod as the watch saw it last, if it is gone; a watch may lag behind."""
        uid = self.episode.status.pod_uid
        if uid is None or self._result is not None:
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WATCH_SECONDS):
                while uid not in self._gone:
                    await self._changed.wait()
                    self._changed.clear()
        return self._gone.get(uid)

    def _is_stale(self, pod: Object) -> bool:
        """Whether nothing needs the pod: it is of an earlier attempt, or the result is written."""
        current = pod_name(self.episode.name, self.episode.status.attempt)
        return self._result is not None or pod["metadata"]["name"] != current

    def _outcome(self) -> Outcome | None:
        if self._driver is None or not self._driver.done():
            return self._refusal
        error = self._driver.exception()
        if error is None:
            return self._driver.result()
        if isinstance(error, ApiError | SessionSuperseded):
            # Not the pod's fault: whoever drives it next, this operator too, goes on in it.
            raise error
        logger.error("%s: driving failed", self.episode.name, exc_info=error)
        return Outcome(Failure(NoVerdictReason.INTERNAL_ERROR, f"{type(error).__name__}: {error}"))

    async def _perform(self, action: step.Action) -> None:
        match action:
            case step.Wait(until):
                await self._wait(until)
            case step.CreatePod():
                await self._create_pod()
            case step.RecordPod(pod):
                await self._apply(status.recorded(self.episode, pod))
            case step.TellWaiting(failure):
                await self._apply(
                    status.held_up(self.episode, failure.reason, failure.message, status.utc_now())
                )
            case step.Drive(pod):
                await self._drive(pod)
            case step.NextAttempt(failure):
                await self._next_attempt(failure)
            case step.DeletePods():
                await self._delete_pods()
            case step.Publish(outcome):
                await self._publish(outcome)
            case step.Distill():
                await self._distill()
            case step.Finish():
                await self._finish()
            case step.FinishWithoutResult():
                await self._finish_without_result()
            case step.DeleteEpisode():
                await self._client.delete(
                    EPISODES, self.episode.namespace, self.episode.name, uid=self.episode.uid
                )
                await asyncio.sleep(_RECHECK_SECONDS)

    async def _wait(self, until: float | None) -> None:
        limit = _RECHECK_SECONDS if until is None else max(0.05, until - time.time())
        changed = asyncio.ensure_future(self._changed.wait())
        waiting: set[asyncio.Future[Any]] = {changed}
        if self._driver is not None and not self._driver.done():
            waiting.add(self._driver)
        try:
            await asyncio.wait(
                waiting,
                timeout=min(limit, _RECHECK_SECONDS),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            changed.cancel()

    async def _apply(self, new: EpisodeStatus) -> None:
        body = status.body(self.episode, new)
        await self._client.apply_status(EPISODES, body, manager=FIELD_MANAGER)
        self.episode = self.episode.model_copy(update={"status": new})

    async def _event(self, reason: str, message: str, *, warning: bool = False) -> None:
        kind: Any = "Warning" if warning else "Normal"
        await events.emit(self._client, self.episode, reason=reason, message=message, kind=kind)

    async def _create_pod(self) -> None:
        episode = self.episode
        name = pod_name(episode.name, episode.status.attempt)
        if episode.status.pod_name != name:
            await self._apply(status.starting(episode, name, status.utc_now()))
        settings = self._shared.settings
        try:
            closing = policies(episode, self._shared.cluster, blocked_cidrs=settings.blocked_cidrs)
        except HostsNeedCilium as error:
            self._refusal = Outcome(Failure(NoVerdictReason.INVALID_TASK, str(error)))
            return
        for resource, body in closing:
            with contextlib.suppress(AlreadyExistsError):
                await self._client.create(resource, body)
        try:
            await self._client.create(PODS, build_pod(episode, episode.status.attempt, settings))
            await self._event("PodCreated", f"created pod {name}")
        except AlreadyExistsError:
            await self._check_name_is_ours(name)
        except ApiError as error:
            await self._refused(name, error)

    async def _refused(self, name: str, error: ApiError) -> None:
        """The API server does not take the pod: a bad spec ends the Episode, a quota is waited for.

        Raises:
            ApiError: it is neither.
        """
        message = f"pod {name} was refused: {error.message}"
        if error.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY):
            self._refusal = Outcome(Failure(NoVerdictReason.INVALID_TASK, message))
        elif error.status == HTTPStatus.FORBIDDEN:
            reason = "PodForbidden"
            await self._apply(status.held_up(self.episode, reason, message, status.utc_now()))
            await self._event(reason, message, warning=True)
            await self._wait(None)
        else:
            raise error

    async def _check_name_is_ours(self, name: str) -> None:
        """A pod of our name that is not ours blocks the Episode; say so instead of looping."""
        pod = await self._client.get(PODS, self.episode.namespace, name)
        if pod and pod["metadata"].get("labels", {}).get(EPISODE_UID) != self.episode.uid:
            message = f"pod {name} belongs to something else; delete it or rename the Episode"
            await self._event("PodNameTaken", message, warning=True)
            await self._wait(None)

    async def _drive(self, pod: PodView) -> None:
        self._attempt = Attempt(
            self._shared,
            self.episode,
            pod,
            trace=self._trace.attempt(self.episode.status.attempt),
            on_agent_end=self._agent_completed,
            on_warning=self._warning,
        )
        async with self._status_writing:
            # The session opens while this is written.
            self._driver = asyncio.create_task(
                self._attempt.run(), name=f"drive-{self.episode.name}"
            )
            await self._apply(status.ready(self.episode, pod, status.utc_now()))
        await self._event("SandboxReady", f"pod {pod.name} runs")

    async def _agent_completed(self, end: str, turns: int, message: str) -> None:
        async with self._status_writing:
            await self._apply(
                status.agent_completed(
                    self.episode, end=end, turns=turns, message=message, now=status.utc_now()
                )
            )
        await self._event("AgentCompleted", f"{end} after {turns} turns")

    async def _warning(self, reason: str, message: str) -> None:
        await self._event(reason, message, warning=True)

    async def _stop_driver(self) -> None:
        if self._driver is not None:
            self._driver.cancel()
            await asyncio.wait({self._driver})
            self._driver = None

    async def _next_attempt(self, failure: Failure) -> None:
        await self._stop_driver()
        self._trace.attempt_ended(self.episode, self.pod, failure)
        self._attempt = self.pod = None
        metrics.ATTEMPTS_FAILED.labels(failure.reason).inc()
        await self._event(
            failure.reason,
            f"attempt {self.episode.status.attempt} "
            f"(pod uid {self.episode.status.pod_uid}): {failure.message}",
            warning=True,
        )
        seconds = backoff_seconds(
            self.episode.status.attempt, first=self._shared.first_backoff_seconds
        )
        pause = timedelta(seconds=seconds)
        await self._apply(status.next_attempt(self.episode, failure, status.utc_now(), pause=pause))

    async def _delete_pods(self) -> None:
        for pod in filter(self._is_stale, self._pods):
            metadata = pod["metadata"]
            await self._client.delete(
                PODS, metadata["namespace"], metadata["name"], uid=metadata["uid"]
            )

    async def _publish(self, outcome: Outcome) -> None:
        await self._stop_driver()
        if outcome.report is None and self._attempt is not None:
            outcome = replace(outcome, report=self._attempt.report())
        episode = self.episode
        group = {GROUP_NAME: label_value(episode.spec.group.name)} if episode.spec.group else {}
        own = episode.metadata.get("labels", {})
        run = {RUN: own[RUN]} if RUN in own else {}
        ended = status.utc_now()
        while True:
            try:
                await writer.write(
                    self._client,
                    name=unique_name(episode.name, episode.uid),
                    namespace=episode.namespace,
                    labels={
                        EPISODE_UID: episode.uid,
                        EPISODE_NAME: label_value(episode.name),
                        **group,
                        **run,
                    },
                    spec=results.spec(episode, outcome, ended),
                    row=results.row(outcome),
                    conversation=results.conversation(outcome),
                    artifacts=results.artifacts(outcome),
                    store=self._shared.store,
                )
                self._trace.attempt_ended(episode, self.pod, outcome.end)
                return
            except ObjectStoreError as error:
                await self._not_stored(error)
            except PayloadError as error:
                outcome = results.without_row(outcome, error)

    async def _not_stored(self, error: ObjectStoreError) -> None:
        """Say so and wait: it is nobody's failure, and what the attempt gave is kept."""
        message = str(error)
        await self._apply(status.not_stored(self.episode, message, status.utc_now()))
        await self._event("ResultNotStored", message, warning=True)
        await asyncio.sleep(_RECHECK_SECONDS)

    async def _distill(self) -> None:
        assert self._result is not None  # lifecycle distils only what is published
        await self._apply(status.distilling(self.episode, self._result, status.utc_now()))
        with self._trace.distillation() as span:
            self._result = await self._shared.distiller.run(
                self.episode, self._result, not_stored=self._not_stored
            )
            told = self._result.status.distillation
            assert told is not None  # it was just written
            span.tell(distillation_attributes(told))
        await self._event(
            f"Distillation{told.state}",
            told.message,
            warning=told.state is DistillationState.FAILED,
        )

    async def _finish(self) -> None:
        assert self._result is not None  # lifecycle finishes only what is published
        spec = self._result.spec
        await self._apply(status.finished(self.episode, self._result, status.utc_now()))
        metrics.finished(spec)
        self._trace.finished(self.episode)
        reward = "" if spec.reward is None else f", reward {spec.reward:g}"
        await self._event(
            spec.reason,
            f"{spec.verdict}{reward}: {spec.message or spec.reason}",
            warning=spec.verdict is Verdict.NO_VERDICT,
        )

    async def _finish_without_result(self) -> None:
        told = self.episode.status
        message = (
            f"EpisodeResult {told.result_name} or a part of it was deleted while it was distilled"
        )
        await self._apply(status.finished_without_result(self.episode, message, status.utc_now()))
        metrics.EPISODES_FINISHED.labels(told.verdict, told.reason).inc()
        self._trace.finished(self.episode)
        await self._event(
            "ResultDeleted", f"{told.verdict}, {told.reason}: {message}", warning=True
        )


async def refresh(client: KubernetesClient, episode: Episode) -> Episode | None:
    """The Episode as it is now, or None if it is gone."""
    stored = await client.get(EPISODES, episode.namespace, episode.name)
    fresh = Episode.model_validate(stored) if stored is not None else None
    return fresh if fresh is not None and fresh.uid == episode.uid else None
