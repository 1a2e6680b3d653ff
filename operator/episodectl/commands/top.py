"""`episodectl top`."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import orjson
import typer
from rich.console import Console

from episode_operator.kube import tables
from episode_operator.kube.client import EPISODE_RESULTS, EPISODES, KubernetesClient, Resource
from episode_operator.kube.tables import Line
from episodectl import overview, usage
from episodectl.options import AllNamespaces, AsJson, Namespace, plain
from episodectl.overview import Overview
from episodectl.running import on_cluster, say


def top(
    *,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    minutes: Annotated[
        int, typer.Option(min=1, max=1440, help="How far back finished Episodes are counted.")
    ] = 10,
    as_json: AsJson = False,
) -> None:
    """Show live Episodes by phase, what their pods use, and what was finished of late."""

    async def work(client: KubernetesClient) -> Overview:
        where = None if all_namespaces else namespace or client.connection.namespace
        episodes, results, used = await asyncio.gather(
            _lines(client, EPISODES, where),
            _lines(client, EPISODE_RESULTS, where),
            usage.read(client, where),
        )
        now = datetime.now(UTC)
        phases, oldest = overview.live(episodes)
        done = overview.ended(results, now=now, minutes=minutes)
        return Overview(phases, oldest, now, minutes, done, used)

    found = on_cluster(work)
    if plain(as_json):
        if isinstance(found.usage, str):
            say(f"CPU and memory are not known: {found.usage}", "yellow")
        typer.echo(orjson.dumps(found.to_json()))
    else:
        found.print(Console(highlight=False))


async def _lines(client: KubernetesClient, resource: Resource, namespace: str | None) -> list[Line]:
    return [line async for line in tables.read(client, resource, namespace)]
