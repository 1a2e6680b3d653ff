"""`episodectl ui`."""

import webbrowser
from typing import Annotated

import typer

from episode_operator.kube.client import KubernetesClient
from episodectl.operators import connected
from episodectl.options import OperatorNamespace
from episodectl.proxy import serve
from episodectl.running import on_cluster, say


def ui(
    *,
    port: Annotated[int, typer.Option(help="Port on this machine; any free one if 0.")] = 0,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open a browser at the page.")
    ] = True,
    operator_namespace: OperatorNamespace = None,
) -> None:
    """Show the web view of the operator on this machine, until interrupted."""

    async def work(client: KubernetesClient) -> None:
        async with connected(client, operator_namespace) as operators:
            await serve(operators, port, on_ready=ready)

    def ready(url: str) -> None:
        typer.echo(url)
        say("reads only; Ctrl-C ends it", "dim")
        if open_browser:
            webbrowser.open(url)

    on_cluster(work)
