"""One finished Episode as a user reads it: verdict, messages and arrays, all of it checked."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from episode_operator.api.distillation import TurnOutcome
from episode_operator.api.episode import Episode
from episode_operator.api.reasons import Verdict
from episode_operator.api.result import Blob, Counts, EpisodeResult, WeightSpan
from episode_operator.kube import connection
from episode_operator.kube.client import KubernetesClient
from episode_operator.results import distillation as distillations
from episode_operator.results import messages as conversations
from episode_operator.results import payload, writer
from episode_operator.results import turns as turn_records
from episode_operator.results.arrays import PayloadError
from episode_operator.results.blobs import BlobError
from episode_operator.results.distillation import Distillation
from episode_operator.results.finding import find
from episode_operator.results.messages import MessagesError
from episode_operator.results.objects import ObjectStore, ObjectStoreError
from episode_operator.results.payload import TokenRow
from episode_operator.results.turns import TurnRecord, TurnsError

T = TypeVar("T")

UNREADABLE = (BlobError, PayloadError, MessagesError, TurnsError, ObjectStoreError)
"""Why a result that is there cannot be read."""


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeRecord:
    """A result with everything it refers to. n is the number of tokens in the row.

    Attributes:
        result: the EpisodeResult: verdict, reward, counts, timings, model and more.
        episode: its Episode, None where that is gone.
        messages: the conversation; None where nothing acted.
        row: the tokens; None for agents that sample nothing.
        versions: str[n], the version of the weights that sampled a position; empty where it was
            not sampled or the server does not name its weights. None without a row.
        distillation: the teacher's values; None where there are none.
        turns: what distillation made of each turn; None without one.
    """

    result: EpisodeResult
    episode: Episode | None = None
    messages: list[dict[str, Any]] | None = None
    row: TokenRow | None = None
    versions: NDArray[np.str_] | None = None
    distillation: Distillation | None = None
    turns: list[TurnRecord] | None = None

    @property
    def verdict(self) -> Verdict:
        """Passed, Failed or NoVerdict."""
        return self.result.spec.verdict

    @property
    def reward(self) -> float | None:
        """The reward; None exactly when there is no verdict."""
        return self.result.spec.reward

    @property
    def reward_components(self) -> dict[str, float]:
        """What the reward is made of."""
        return self.result.spec.reward_components

    @property
    def counts(self) -> Counts:
        """Turns, calls and tokens."""
        return self.result.spec.counts

    @classmethod
    async def load(
        cls,
        client: KubernetesClient,
        *,
        namespace: str,
        name: str,
        store: ObjectStore | None = None,
    ) -> "EpisodeRecord":
        """Read the record of an Episode, by its name or by that of its EpisodeResult.

        Blobs in an object store are read through `store` if they are in it, else with the AWS_*
        variables of this process.

        Raises:
            RecordError: there is no such result (yet), or more than one.
            BlobError, PayloadError, MessagesError, TurnsError: what is stored is not what was
                written.
            ObjectStoreError: the object store does not give a blob.
            ApiError: the API server does not answer, or refuses.
        """
        result, episode = await find(client, namespace=namespace, name=name)
        return await cls.read(client, result, episode, store=store)

    @classmethod
    async def read(
        cls,
        client: KubernetesClient,
        result: EpisodeResult,
        episode: Episode | None,
        *,
        store: ObjectStore | None = None,
    ) -> "EpisodeRecord":
        """The record of a result that was found. Raises as `load`, but for RecordError."""
        namespace = result.metadata["namespace"]

        async def read(blob: Blob | None, decode: Callable[[bytes], T]) -> T | None:
            if blob is None:
                return None
            data = await writer.read_blob(client, namespace=namespace, blob=blob, store=store)
            return await asyncio.to_thread(decode, data)

        spec, distilled = result.spec, result.status.distillation
        row, said = await asyncio.gather(
            read(spec.tokens, payload.decode), read(spec.messages, conversations.decode)
        )
        values = turns = None
        if distilled is not None:
            values, turns = await asyncio.gather(
                read(distilled.data, lambda data: distillations.decode(data, row)),
                read(distilled.turns, turn_records.decode),
            )
        record = cls(
            result=result,
            episode=episode,
            messages=said,
            row=row,
            versions=None if row is None else versions(row, spec.weight_versions),
            distillation=values,
            turns=turns,
        )
        record.check()
        return record

    @classmethod
    def load_sync(
        cls, name: str, *, namespace: str | None = None, store: ObjectStore | None = None
    ) -> "EpisodeRecord":
        """As `load`, with the cluster of the kubeconfig, or of this pod; also inside a notebook.

        `namespace` is that of the kubeconfig's context, or this pod's, unless given.

        Raises:
            kubernetes.aio.config.ConfigException: there is neither a kubeconfig nor a pod.
        """

        async def run() -> EpisodeRecord:
            async with KubernetesClient(await connection.load()) as client:
                where = namespace or client.connection.namespace
                return await cls.load(client, namespace=where, name=name, store=store)

        with ThreadPoolExecutor(1) as pool:  # the caller's thread may run an event loop already
            return pool.submit(asyncio.run, run()).result()

    def check(self) -> None:
        """Raise PayloadError unless the parts fit to each other."""
        tokens = 0 if self.row is None else self.row.tokens.size
        sampled = 0 if self.row is None else int(self.row.mask.sum())
        counts = self.result.spec.counts
        if (counts.tokens, counts.sampled_tokens) != (tokens, sampled):
            raise PayloadError(
                f"counts: {counts.tokens} tokens, {counts.sampled_tokens} of them sampled; the row "
                f"has {tokens} and {sampled}"
            )
        told = self.result.status.distillation
        valued = 0 if self.distillation is None else self.distillation.positions.size
        if told is not None and told.positions != valued:
            raise PayloadError(
                f"distillation: {told.positions} positions, but {valued} have values"
            )
        if self.row is None:
            if self.distillation is not None or self.turns:
                raise PayloadError("distillation: of a result without a row")
        elif self.turns is not None:
            _check_turns(self.turns, self.row, self.distillation)


def versions(row: TokenRow, spans: Sequence[WeightSpan]) -> NDArray[np.str_]:
    """str[n]: which weights sampled each position; empty where it was not sampled.

    Raises:
        PayloadError: the spans do not cover exactly the sampled positions, in order.
    """
    longest = max((len(span.version) for span in spans), default=1)
    found = np.full(row.tokens.shape, "", dtype=f"U{max(longest, 1)}")
    covered = np.zeros_like(row.mask)
    end = 0
    for span in spans:
        if not end <= span.start < span.end <= row.tokens.size:
            raise PayloadError(
                f"weightVersions: [{span.start}, {span.end}) after {end} in a row of "
                f"{row.tokens.size} tokens"
            )
        end = span.end
        found[span.start : end] = span.version
        covered[span.start : end] = True
    if np.any(covered != row.mask):
        at = int(np.argmax(covered != row.mask))
        raise PayloadError(f"weightVersions: position {at} is sampled or has a version, not both")
    return found


def _check_turns(
    records: Sequence[TurnRecord], row: TokenRow, distillation: Distillation | None
) -> None:
    """The records ascend and are where the row has their turns; just scored ones have values."""
    scored: list[int] = []
    last = -1
    for record in records:
        if record.turn <= last:
            raise PayloadError(f"turns: {record.turn} after {last}")
        last = record.turn
        positions = list(range(record.start, record.end))
        if positions != np.flatnonzero(row.mask & (row.turn == record.turn)).tolist():
            raise PayloadError(
                f"turns: turn {record.turn} did not sample [{record.start}, {record.end})"
            )
        if record.outcome is TurnOutcome.SCORED:
            scored += positions
    valued = [] if distillation is None else distillation.positions.tolist()
    if scored != valued:
        raise PayloadError(
            f"turns: {len(scored)} positions of scored turns, but {len(valued)} have values"
        )
