"""What the pages show, read from the cluster with the operator's own rights."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from episode_operator.api.episode import Episode
from episode_operator.api.labels import GROUP_NAME, RUN, label_value
from episode_operator.kube import tables
from episode_operator.kube.client import EPISODE_RESULTS, EPISODES, KubernetesClient
from episode_operator.kube.rows import Row
from episode_operator.kube.selection import Selection
from episode_operator.results.finding import RecordUnfinished, find
from episode_operator.results.objects import ObjectStore
from episode_operator.results.record import EpisodeRecord
from episode_operator.results.rollout import Turn, turns
from episode_operator.results.texts import NoTexts, texts
from episode_operator.view.curves import Outcome

_ROWS = 500
_RECORDS = 32
_TEXTS = 200_000


@dataclass(frozen=True, slots=True)
class Listed:
    """The newest Episodes of a selection, and how many there are of it."""

    rows: Sequence[Row]
    total: int


@dataclass(frozen=True, slots=True)
class Found:
    """An Episode: at work, or with its record; one of the two is there."""

    episode: Episode | None
    record: EpisodeRecord | None

    @property
    def name(self) -> str:
        """Of the Episode."""
        if self.record is not None:
            return self.record.result.spec.episode.name
        assert self.episode is not None
        return self.episode.name


class Reader:
    """Reads for the pages; keeps the records and the texts of tokens that were read last."""

    def __init__(self, client: KubernetesClient, store: ObjectStore | None) -> None:
        self._client = client
        self._store = store
        self._records: OrderedDict[tuple[str, str], EpisodeRecord] = OrderedDict()
        self._texts: dict[tuple[str, str], dict[int, str]] = {}

    async def episodes(self, namespace: str | None, selection: Selection) -> Listed:
        """The selected Episodes of a namespace, None meaning all, newest first.

        Raises:
            ApiError: the API server does not answer, or refuses.
        """
        found = [
            Row.of(line)
            async for line in tables.read(
                self._client, EPISODES, namespace, selector=selection.labels
            )
            if selection.takes(line)
        ]
        found.sort(key=lambda row: (row.created, row.name), reverse=True)
        return Listed(found[:_ROWS], len(found))

    async def episode(self, namespace: str, name: str) -> Found:
        """The Episode, or the result that it left.

        Raises:
            RecordError: there is none, or more than one result.
            BlobError, PayloadError, MessagesError, TurnsError, ObjectStoreError: its result cannot
                be read.
            ApiError: the API server does not answer, or refuses.
        """
        try:
            result, episode = await find(self._client, namespace=namespace, name=name)
        except RecordUnfinished as unfinished:
            return Found(unfinished.episode, None)
        key = (result.metadata["uid"], result.metadata["resourceVersion"])
        if key not in self._records:
            self._records[key] = await EpisodeRecord.read(
                self._client, result, episode, store=self._store
            )
        self._records.move_to_end(key)
        while len(self._records) > _RECORDS:
            self._records.popitem(last=False)
        return Found(episode, self._records[key])

    async def turn(self, found: Found, number: int) -> tuple[Turn | None, str | None]:
        """A turn with the texts of its tokens, and why there are none if so."""
        record = found.record
        if record is None or record.row is None:
            return None, None
        ids = record.row.tokens[record.row.turn == number].tolist()
        known, why = await self._texts_of(found, ids)
        shown = await asyncio.to_thread(lambda: list(turns(record, known)))
        return next((turn for turn in shown if turn.number == number), None), why

    async def _texts_of(
        self, found: Found, ids: Sequence[int]
    ) -> tuple[Mapping[int, str] | None, str | None]:
        if found.episode is None or found.episode.spec.model is None:
            return None, "the Episode is gone, and with it the address of its model server"
        model = found.episode.spec.model
        known = self._texts.setdefault((model.endpoint, model.name), {})
        if len(known) > _TEXTS:
            known.clear()
        try:
            new = await texts(
                set(ids) - known.keys(), endpoint=model.endpoint, model=model.name, through=None
            )
        except NoTexts as error:
            return None, str(error)
        known.update(new)
        return known, None

    async def group(self, namespace: str, group: str) -> list[Found]:
        """The members of a group that have a result, in the order of their names.

        Raises as `episode` does.
        """
        labelled = await self._client.list(
            EPISODE_RESULTS,
            namespace,
            labels={GROUP_NAME: label_value(group)},
            metadata_only=True,
        )
        names = sorted(each["metadata"]["name"] for each in labelled)
        return list(await asyncio.gather(*(self.episode(namespace, name) for name in names)))

    async def outcomes(self, namespace: str, run: str) -> list[Outcome]:
        """The results of a run of the trainer bridge that are still there, oldest first.

        Raises:
            ApiError: the API server does not answer, or refuses.
        """
        lines = tables.read(self._client, EPISODE_RESULTS, namespace, selector=f"{RUN}={run}")
        found = [_outcome(line.metadata, line.cells) async for line in lines]
        return sorted(found, key=lambda outcome: (outcome.created, outcome.name))


def _outcome(metadata: Mapping[str, Any], cells: Mapping[str, Any]) -> Outcome:
    labels = metadata.get("labels") or {}
    return Outcome(
        name=metadata["name"],
        created=metadata["creationTimestamp"],
        group=labels.get(GROUP_NAME),
        verdict=cells["Verdict"],
        reward=cells["Reward"],
        turns=cells["Turns"],
        tokens=cells["Tokens"],
        delivery=cells["Delivery"],
    )
