"""Lists of Episodes, once or again and again."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from episode_operator.kube import tables
from episode_operator.kube.client import EPISODES, KubernetesClient
from episode_operator.kube.rows import Row, ordered
from episode_operator.kube.selection import Selection
from episodectl.rows import table

_PAUSE_SECONDS = 2.0
_AROUND_LINES = 4


async def read(client: KubernetesClient, namespace: str | None, selection: Selection) -> list[Row]:
    """The selected Episodes of a namespace, None meaning all, oldest first.

    Raises:
        ApiError: the API server does not answer, or refuses.
    """
    found = tables.read(client, EPISODES, namespace, selector=selection.labels)
    return ordered([Row.of(line) async for line in found if selection.takes(line)])


async def repeated(
    client: KubernetesClient, namespace: str | None, selection: Selection
) -> AsyncIterator[list[Row]]:
    """The same again and again, without end."""
    while True:
        yield await read(client, namespace, selection)
        await asyncio.sleep(_PAUSE_SECONDS)


def changes(before: Mapping[str, Row], now: Mapping[str, Row]) -> Iterator[dict[str, Any]]:
    """What differs between two lists, by uid, for programs: rows, and those that left the list.

    An Episode leaves it when it is deleted, or no longer what was selected.
    """
    for uid, row in now.items():
        if before.get(uid) != row:
            yield row.to_json() | {"gone": False}
    for uid, row in before.items():
        if uid not in now:
            yield row.to_json() | {"gone": True}


def screen(
    rows: Sequence[Row], *, namespaces: bool, height: int, now: datetime | None = None
) -> RenderableType:
    """The table as a terminal of so many lines holds it: the newest rows, and counts of all."""
    room = max(1, height - _AROUND_LINES)
    shown = rows[-room:]
    counts = Counter(row.verdict or row.phase or "not taken up" for row in rows)
    told = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    hidden = f"; {len(rows) - len(shown)} older ones above" if len(shown) < len(rows) else ""
    summary = Text(f"{len(rows)} Episodes: {told}{hidden}" if rows else "no Episodes", style="dim")
    return Group(table(shown, namespaces=namespaces, now=now), summary)
