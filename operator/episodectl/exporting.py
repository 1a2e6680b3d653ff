"""Results of finished Episodes as rows of JSON, or as files of arrays."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice
from typing import Any

import orjson
from numpy.typing import NDArray
from safetensors.numpy import save

from episode_operator.api.reasons import Verdict
from episode_operator.kube import tables
from episode_operator.kube.client import EPISODE_RESULTS, KubernetesClient
from episode_operator.kube.selection import Selection
from episode_operator.results.distillation import Distillation
from episode_operator.results.record import EpisodeRecord
from episodectl import records
from episodectl.errors import UNREADABLE, UnknownNameError
from trainer_bridge.sinks.base import RefusedError
from trainer_bridge.sinks.datasets import jsonl
from trainer_bridge.sinks.datasets.rows import filled, row
from trainer_bridge.sinks.records import check_record

SCORED = (Verdict.PASSED, Verdict.FAILED)
"""The verdicts that have a reward."""

_AT_ONCE = 8
_LEFT_OUT = (*UNREADABLE, RefusedError)


async def selected(client: KubernetesClient, namespace: str, selection: Selection) -> list[str]:
    """Names of the selected EpisodeResults, oldest first.

    Raises:
        ApiError: the API server does not answer, or refuses.
    """
    found = [
        line.metadata
        async for line in tables.read(client, EPISODE_RESULTS, namespace, selector=selection.labels)
        if selection.takes(line)
    ]
    return [
        each["name"] for each in sorted(found, key=lambda m: (m["creationTimestamp"], m["name"]))
    ]


async def read(
    client: KubernetesClient, namespace: str, names: Sequence[str]
) -> AsyncIterator[tuple[str, EpisodeRecord | Exception]]:
    """The record of each name, in their order; why not, where it cannot be read.

    Raises:
        ApiError: the API server does not answer, or refuses.
    """

    async def one(name: str) -> EpisodeRecord | Exception:
        try:
            record = await records.load(client, namespace, name)
            check_record(record)
        except (*_LEFT_OUT, UnknownNameError) as error:
            return error
        return record

    for some in _batches(names):
        found = await asyncio.gather(*(one(name) for name in some))
        for name, record in zip(some, found, strict=True):
            yield name, record


def _batches(names: Sequence[str]) -> Iterator[list[str]]:
    rest = iter(names)
    while some := list(islice(rest, _AT_ONCE)):
        yield some


def line(record: EpisodeRecord, *, include_messages: bool, neutral_fill: bool) -> bytes:
    """The record as a line of JSON, with the columns of docs/datasets.md.

    Raises:
        RefusedError: BadMessages or NotFillable.
    """
    return jsonl.encode([row(record, include_messages=include_messages, neutral_fill=neutral_fill)])


def arrays(record: EpisodeRecord, *, neutral_fill: bool) -> bytes | None:
    """The record as a safetensors file, uncompressed; None for agents that sample nothing.

    Arrays and shapes are those of docs/payload.md, the teacher's with `distill_` before their
    names; verdict, reward, model and more are strings in the file's metadata.

    Raises:
        RefusedError: NotFillable.
    """
    if record.row is None:
        return None
    found: dict[str, NDArray[Any]] = record.row.arrays()
    values: Distillation | None = record.distillation
    if values is not None:
        if neutral_fill:
            values = filled(record, record.row, values)
        found |= {f"distill_{name}": array for name, array in values.arrays().items()}
    return save(found, _metadata(record))


def _metadata(record: EpisodeRecord) -> dict[str, str]:
    """What a row of JSON says besides arrays and messages; a value that is no text, as JSON."""
    told = row(record, include_messages=False, include_distillation=False)
    arrays_of_row = record.row.arrays() if record.row is not None else {}
    return {
        name: value if isinstance(value, str) else orjson.dumps(value).decode()
        for name, value in told.items()
        if value is not None and name not in arrays_of_row
    }
