"""`episodectl list` and `watch`."""

from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.live import Live

from episode_operator.api.episode import Episode
from episode_operator.kube.client import KubernetesClient
from episode_operator.kube.rows import Row
from episode_operator.kube.selection import Selection
from episodectl import episodes, listing, options
from episodectl.commands.run import wait
from episodectl.errors import CommandError
from episodectl.rows import table
from episodectl.running import on_cluster, reporting, say

_UNCUT = 10_000
"""Columns: more than any row has, since a name that is cut off is of no use."""


def list_episodes(
    *,
    namespace: options.Namespace = None,
    all_namespaces: options.AllNamespaces = False,
    run: options.Run = None,
    group: options.GroupName = None,
    verdict: options.Verdicts = None,
    reason: options.Reasons = None,
    phase: options.Phases = None,
    selector: options.Selector = None,
    as_json: options.AsJson = False,
) -> None:
    """List Episodes: phase, verdict, reward, turns, reason, age. Elsewhere a line of JSON each."""
    selection = Selection(run, group, selector, verdict or (), reason or (), phase or ())
    where = _Where(namespace, all_namespaces)
    rows = on_cluster(lambda client: listing.read(client, where.of(client), selection))
    if not rows:
        say("no such Episodes" if all_namespaces else "no such Episodes here; -A looks everywhere")
    elif options.plain(as_json):
        for row in rows:
            typer.echo(orjson.dumps(row.to_json()))
    else:
        console = Console(highlight=False, width=_UNCUT)
        console.print(table(rows, namespaces=all_namespaces))


def watch(
    *,
    name: Annotated[
        str | None,
        typer.Argument(
            help="Name of an Episode; without it, all that are selected.",
            autocompletion=options.complete_episodes,
        ),
    ] = None,
    namespace: options.Namespace = None,
    all_namespaces: options.AllNamespaces = False,
    run: options.Run = None,
    group: options.GroupName = None,
    verdict: options.Verdicts = None,
    reason: options.Reasons = None,
    phase: options.Phases = None,
    selector: options.Selector = None,
    as_json: options.AsJson = False,
) -> None:
    """Watch Episodes until interrupted, or one of them until it is finished.

    With a name the exit code is the verdict's, as of run. Where standard output is no terminal, it
    is a line of JSON whenever an Episode changed, with `gone` for those that left the list.
    """
    selection = Selection(run, group, selector, verdict or (), reason or (), phase or ())
    where = _Where(namespace, all_namespaces)
    if name is None:
        on_cluster(lambda client: _watch(client, where, selection, options.plain(as_json)))
        return
    with reporting():
        if all_namespaces or selection != Selection():
            raise CommandError("give a name, or what selects Episodes; not both")
    found = on_cluster(lambda client: _named(client, namespace, name))
    wait(found.name, found.namespace, as_json=as_json)


class _Where:
    """The namespace that the user means, once there is a client."""

    def __init__(self, namespace: str | None, every: bool) -> None:
        self._namespace = namespace
        self.every = every

    def of(self, client: KubernetesClient) -> str | None:
        return None if self.every else self._namespace or client.connection.namespace


async def _named(client: KubernetesClient, namespace: str | None, name: str) -> Episode:
    where = namespace or client.connection.namespace
    return Episode.model_validate(await episodes.stored(client, where, name))


async def _watch(
    client: KubernetesClient, where: _Where, selection: Selection, plain: bool
) -> None:
    lists = listing.repeated(client, where.of(client), selection)
    if plain:
        before: dict[str, Row] = {}
        async for rows in lists:
            now = {row.uid: row for row in rows}
            for change in listing.changes(before, now):
                typer.echo(orjson.dumps(change))
            before = now
    console = Console(highlight=False)
    with Live(console=console, auto_refresh=False) as live:
        async for rows in lists:
            live.update(
                listing.screen(rows, namespaces=where.every, height=console.height), refresh=True
            )
