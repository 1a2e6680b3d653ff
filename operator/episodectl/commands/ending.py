"""`episodectl cancel` and `retry`."""

import sys
from typing import Annotated

import typer

from episode_operator.api.episode import Episode
from episode_operator.kube.client import EPISODES, KubernetesClient, Object
from episodectl import copies, episodes
from episodectl.commands.run import follow
from episodectl.errors import CommandError
from episodectl.options import AsJson, EpisodeName, Namespace, complete_episodes
from episodectl.running import on_cluster, reporting, say


def cancel(
    *,
    names: Annotated[
        list[str],
        typer.Argument(help="Names of Episodes.", autocompletion=complete_episodes),
    ],
    namespace: Namespace = None,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
) -> None:
    """Cancel Episodes that are at work: delete them, and with them their pods.

    The spec of an Episode never changes, so there is no other way to stop it. It leaves no result.
    """
    found = on_cluster(lambda client: _at_work(client, namespace, names))
    where = found[0].namespace
    say(f"deletes from namespace {where}, with its pod and without a result:")
    for episode in found:
        say(f"  {episode.name}  {episode.status.phase or 'not taken up yet'}")
    with reporting():
        if not yes and not sys.stdin.isatty():
            raise CommandError("standard input is no terminal to ask on; give --yes")
    if not yes and not typer.confirm("Delete?", err=True):
        raise typer.Exit(0)
    on_cluster(lambda client: _delete(client, found))


async def _at_work(
    client: KubernetesClient, namespace: str | None, names: list[str]
) -> list[Episode]:
    where = namespace or client.connection.namespace
    found = [
        Episode.model_validate(await episodes.stored(client, where, name))
        for name in dict.fromkeys(names)
    ]
    over = [episode.name for episode in found if episode.status.finished]
    if over:
        raise CommandError(
            f"finished already: {', '.join(over)}; nothing is cancelled. To delete what is "
            f"finished: kubectl delete episode {' '.join(over)} -n {where}"
        )
    return found


async def _delete(client: KubernetesClient, found: list[Episode]) -> None:
    for episode in found:
        await client.delete(EPISODES, episode.namespace, episode.name, uid=episode.uid)
        typer.echo(f"episode/{episode.name} deleted")


def retry(
    *,
    name: EpisodeName,
    new_name: Annotated[str | None, typer.Option("--name", help="Name of the new Episode.")] = None,
    namespace: Namespace = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Create it, print its name, and do not wait.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a finished Episode again: a new Episode with the same spec, and a new name.

    Waits for the verdict and exits with its code, as run. The new one is in no run and no group
    of the trainer bridge: a group has each member once.
    """

    async def work(client: KubernetesClient) -> tuple[copies.Copy, Object]:
        where = namespace or client.connection.namespace
        copy = copies.copied(await episodes.stored(client, where, name), new_name)
        return copy, await copies.create(client, copy)

    copy, made = on_cluster(work)
    for left_out in copy.dropped:
        say(f"left out: {left_out}", "yellow")
    follow(made, detach=detach, as_json=as_json)
