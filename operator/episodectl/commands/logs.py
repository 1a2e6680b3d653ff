"""`episodectl logs`."""

from typing import Annotated

import orjson
import typer
from rich.console import Console

from episode_operator.kube.client import KubernetesClient
from episodectl.conversations import messages, print_message
from episodectl.options import AsJson, EpisodeName, Namespace, OperatorNamespace, plain
from episodectl.running import on_cluster


def logs(
    *,
    episode: EpisodeName,
    namespace: Namespace = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on until the Episode is over.")
    ] = False,
    operator_namespace: OperatorNamespace = None,
    as_json: AsJson = False,
) -> None:
    """Print what was said in an Episode, turns as they happen. Elsewhere a line of JSON each."""
    as_lines, console = plain(as_json), Console(highlight=False, soft_wrap=True)

    async def work(client: KubernetesClient) -> None:
        where = namespace or client.connection.namespace
        said = messages(
            client, where, episode, follow=follow, operator_namespace=operator_namespace
        )
        async for message in said:
            if as_lines:
                typer.echo(orjson.dumps(message))
            else:
                print_message(console, message)

    on_cluster(work)
