"""`episodectl show`."""

from typing import Annotated

import typer
from rich.console import Console

from episode_operator.kube.client import KubernetesClient
from episode_operator.results.record import EpisodeRecord
from episodectl.options import AsJson, Namespace, complete_results, plain
from episodectl.running import on_cluster, say
from episodectl.show import read, write_lines, write_view


def show(
    *,
    episode: Annotated[
        str,
        typer.Argument(
            help="Name of an Episode or of an EpisodeResult.", autocompletion=complete_results
        ),
    ],
    namespace: Namespace = None,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="A table of the tokens, with all their values.")
    ] = False,
    as_json: AsJson = False,
    endpoint: Annotated[
        str | None,
        typer.Option(help="URL of a server of the model, if the Episode's cannot be reached."),
    ] = None,
) -> None:
    """Show a finished Episode: verdict, reward, and its turns with their tokens in colour."""

    async def work(
        client: KubernetesClient,
    ) -> tuple[EpisodeRecord, dict[int, str] | None, str | None]:
        where = namespace or client.connection.namespace
        return await read(client, episode, namespace=where, endpoint=endpoint)

    record, texts, why = on_cluster(work)
    if why is not None:
        say(f"ids instead of texts: {why}", "yellow")
    if plain(as_json):
        write_lines(record, texts)
    else:
        write_view(Console(highlight=False), record, texts, table=tokens)
