"""The Episodes of a run on the cluster: made, waited for, read, marked, deleted."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import stamina

from episode_operator.api.base import API_VERSION
from episode_operator.api.episode import Episode
from episode_operator.api.labels import GROUP_NAME, label_value
from episode_operator.api.reasons import Verdict
from episode_operator.api.result import Delivery, EpisodeResult, EpisodeResultStatus
from episode_operator.kube.client import (
    CONFIG_MAPS,
    EPISODE_RESULTS,
    EPISODES,
    AlreadyExistsError,
    ApiError,
    KubernetesClient,
    NotFoundError,
    Object,
    Resource,
)
from episode_operator.results.arrays import PayloadError
from episode_operator.results.blobs import BlobError
from episode_operator.results.finding import RecordError, RecordMissing, RecordUnfinished
from episode_operator.results.messages import MessagesError
from episode_operator.results.objects import ObjectMissing, ObjectStore, ObjectStoreError
from episode_operator.results.record import EpisodeRecord
from episode_operator.results.turns import TurnsError
from trainer_bridge.run.groups import Ended
from trainer_bridge.run.lease import RunLease, too_large
from trainer_bridge.run.names import GroupName, labels
from trainer_bridge.run.state import MANAGER
from trainer_bridge.sources import Build, Unreadable, manifest

logger = logging.getLogger(__name__)

UNREADABLE = "Unreadable"
WRONG_HARNESS = "WrongHarness"

_LIST_SECONDS = 15.0
_PAUSE_SECONDS = 1.0
_READ_ATTEMPTS = 8
_MESSAGE_MAX = 4000
_FAULTY = frozenset({400, 413, 422})
_DAMAGED = (BlobError, PayloadError, MessagesError, TurnsError, ObjectMissing)


class Watcher:
    """Tells when Episodes of a run are finished or gone.

    A watch says it at once, a list every 15 s what the watch did not.
    """

    def __init__(self, client: KubernetesClient, *, namespace: str, run: str) -> None:
        self._client = client
        self._namespace = namespace
        self._labels = labels(run)
        self._waiting: dict[str, asyncio.Future[None]] = {}

    def ended(self, name: str) -> "asyncio.Future[None]":
        """Done once the Episode, which exists, is finished, or does not exist any more."""
        return self._waiting.setdefault(name, asyncio.get_running_loop().create_future())

    async def run(self) -> None:
        """Watch and list until cancelled."""
        await asyncio.gather(self._watch(), self._list())

    async def _watch(self) -> None:
        while True:
            try:
                async for seen in self._client.watch(
                    EPISODES, self._namespace, labels=self._labels
                ):
                    if Episode.model_validate(seen).status.finished:
                        self._tell(seen["metadata"]["name"])
            except ApiError as error:
                logger.warning("watching Episodes: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _list(self) -> None:
        while True:
            waiting = set(self._waiting)
            try:
                found = await self._client.list(EPISODES, self._namespace, labels=self._labels)
            except ApiError as error:
                logger.warning("listing Episodes: %s", error)
            else:
                episodes = {each["metadata"]["name"]: each for each in found}
                for name in waiting:
                    listed = episodes.get(name)
                    if listed is None or Episode.model_validate(listed).status.finished:
                        self._tell(name)
            await asyncio.sleep(_LIST_SECONDS)

    def _tell(self, name: str) -> None:
        future = self._waiting.pop(name, None)
        if future is not None and not future.done():
            future.set_result(None)


class RunEpisodes:
    """Episodes of one run in one namespace; whatever is changed needs the lease of the run."""

    def __init__(
        self,
        client: KubernetesClient,
        lease: RunLease,
        *,
        namespace: str,
        run: str,
        store: ObjectStore | None = None,
    ) -> None:
        self.client = client
        self.namespace = namespace
        self._lease = lease
        self._labels = labels(run)
        self._store = store
        self.watcher = Watcher(client, namespace=namespace, run=run)

    async def create(self, name: str, group: GroupName, build: Build) -> None:
        """Create an Episode and what it needs; what is there already stays as it is.

        Raises:
            Unreadable: the API server finds fault with the Episode.
            ApiError, LeaseLostError: it cannot be created.
        """
        own = self._own(group)
        for part in build.parts:
            await self._create(CONFIG_MAPS, part.to_api(self.namespace, own))
        body = manifest(name, build.spec)
        body["metadata"] |= {"namespace": self.namespace, "labels": own}
        try:
            await self._create(EPISODES, body)
        except ApiError as error:
            if error.status in _FAULTY or too_large(error):
                raise Unreadable(f"Episode {name}", str(error)) from error
            raise

    async def _create(self, resource: Resource, body: Object) -> None:
        try:
            await self._lease.insist(lambda: self.client.create(resource, body))
        except AlreadyExistsError:
            return

    async def read(self, name: str, *, harness: str) -> EpisodeRecord | Ended | None:
        """What an Episode gave; Ended where that is of no use; None while it is at work.

        Raises:
            RecordMissing: there is neither an Episode nor a result of it.
            ApiError, ObjectStoreError: it could not be read for long.
        """
        async for attempt in stamina.retry_context(
            on=_may_be_read_later, attempts=_READ_ATTEMPTS, wait_max=30.0, timeout=None
        ):
            with attempt:
                return await self._read(name, harness)
        raise AssertionError("unreachable")

    async def _read(self, name: str, harness: str) -> EpisodeRecord | Ended | None:
        for last in (False, True):
            try:
                record = await EpisodeRecord.load(
                    self.client, namespace=self.namespace, name=name, store=self._store
                )
            except RecordMissing:
                raise
            except RecordUnfinished as error:
                stored = await self.client.get(EPISODES, self.namespace, name)
                if stored is not None and not Episode.model_validate(stored).status.finished:
                    return None
                if last:  # else it may have ended between the two looks
                    return Ended(Verdict.NO_VERDICT, UNREADABLE, str(error))
            except (RecordError, *_DAMAGED) as error:
                told = f"{type(error).__name__}: {error}"
                return Ended(Verdict.NO_VERDICT, UNREADABLE, told)
            else:
                return _checked(record, harness)
        raise AssertionError("unreachable")

    async def results(self, group: GroupName) -> list[EpisodeResult]:
        """All results of a group, of members that were run again as well."""
        found = await self._lease.insist(
            lambda: self.client.list(EPISODE_RESULTS, self.namespace, labels=self._own(group))
        )
        return [EpisodeResult.model_validate(each) for each in found]

    async def mark(
        self,
        results: Iterable[EpisodeResult],
        delivery: Delivery,
        *,
        reason: str | None = None,
        message: str | None = None,
    ) -> None:
        """Mark results on their way to the trainer; one that was deleted needs no mark.

        Raises:
            ApiError, LeaseLostError: not all are marked.
        """
        status = EpisodeResultStatus(
            delivery=delivery,
            reason=reason,
            message=None if message is None else message[:_MESSAGE_MAX],
            delivery_time=datetime.now(UTC),
        ).to_api()
        bodies = [
            {
                "apiVersion": API_VERSION,
                "kind": "EpisodeResult",
                "metadata": {key: result.metadata[key] for key in ("name", "namespace")},
                "status": status,
            }
            for result in results
        ]
        await asyncio.gather(*(self._mark(body) for body in bodies))

    async def _mark(self, body: Object) -> None:
        with contextlib.suppress(NotFoundError):
            await self._lease.insist(
                lambda: self.client.apply_status(EPISODE_RESULTS, body, manager=MANAGER)
            )

    async def delete(self, group: GroupName) -> None:
        """Delete the Episodes of a group, which ends those at work, and what they needed.

        Their results stay.
        """
        for resource in (EPISODES, CONFIG_MAPS):
            await self._delete_all(resource, self._own(group))

    async def _delete_all(self, resource: Resource, own: dict[str, str]) -> None:
        for each in await self._lease.insist(
            lambda: self.client.list(resource, self.namespace, labels=own, metadata_only=True)
        ):
            await self._delete(resource, each)

    async def _delete(self, resource: Resource, item: Object) -> None:
        metadata = item["metadata"]
        await self._lease.insist(
            lambda: self.client.delete(
                resource, self.namespace, metadata["name"], uid=metadata["uid"]
            )
        )

    async def sweep(self, needed: Callable[[str], bool], *, older_than: float | None) -> None:
        """Delete what closed groups left: Episodes and their parts, results older than so many s.

        Args:
            needed: whether a group, by its label, is not closed.
            older_than: results are kept for ever where it is None.

        Raises:
            ApiError, LeaseLostError: not all was looked at.
        """
        for resource in (EPISODES, CONFIG_MAPS, EPISODE_RESULTS):
            if resource is EPISODE_RESULTS and older_than is None:
                return
            for each in await self.client.list(
                resource, self.namespace, labels=self._labels, metadata_only=True
            ):
                metadata = each["metadata"]
                group = metadata["labels"].get(GROUP_NAME)
                made = datetime.fromisoformat(metadata["creationTimestamp"]).timestamp()
                young = resource is EPISODE_RESULTS and time.time() - made < (older_than or 0)
                if group is not None and not needed(group) and not young:
                    await self._delete(resource, each)

    def _own(self, group: GroupName) -> dict[str, str]:
        return {**self._labels, GROUP_NAME: label_value(str(group))}


def _checked(record: EpisodeRecord, harness: str) -> EpisodeRecord | Ended | None:
    if record.episode is not None and not record.episode.status.finished:
        return None
    if record.result.spec.harness != harness:
        return Ended(
            Verdict.NO_VERDICT,
            WRONG_HARNESS,
            f"scored by {record.result.spec.harness}, not by {harness}",
        )
    return record


def _may_be_read_later(error: Exception) -> bool:
    return isinstance(error, ApiError | ObjectStoreError) and not isinstance(error, ObjectMissing)
