"""Arguments and options that several commands have, and the completion of names."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from episode_operator.api.reasons import Phase, Verdict
from episode_operator.kube import connection
from episode_operator.kube.client import EPISODE_RESULTS, EPISODES, KubernetesClient, Resource

_COMPLETION_SECONDS = 2.0


def _names(resource: Resource, context: typer.Context, incomplete: str) -> list[str]:
    """Names that begin so; none where the cluster does not give them at once.

    Whatever goes wrong is not told: the user is in the middle of a line.
    """

    async def read() -> list[str]:
        async with (
            asyncio.timeout(_COMPLETION_SECONDS),
            KubernetesClient(await connection.load()) as client,
        ):
            namespace = context.params.get("namespace") or client.connection.namespace
            found = await client.list(resource, namespace, metadata_only=True)
            return [each["metadata"]["name"] for each in found]

    try:
        return [name for name in asyncio.run(read()) if name.startswith(incomplete)]
    except Exception:
        return []


def complete_episodes(context: typer.Context, incomplete: str) -> list[str]:
    """Names of Episodes."""
    return _names(EPISODES, context, incomplete)


def complete_results(context: typer.Context, incomplete: str) -> list[str]:
    """Names of EpisodeResults, and of Episodes, which stand for theirs."""
    return [
        name for kind in (EPISODES, EPISODE_RESULTS) for name in _names(kind, context, incomplete)
    ]


Namespace = Annotated[
    str | None,
    typer.Option("-n", "--namespace", help="Namespace; that of the kubeconfig's context."),
]
AllNamespaces = Annotated[bool, typer.Option("-A", "--all-namespaces", help="All namespaces.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="JSON; so it is where standard output is no terminal.")
]
EpisodeName = Annotated[
    str, typer.Argument(help="Name of an Episode.", autocompletion=complete_episodes)
]
OperatorNamespace = Annotated[
    str | None,
    typer.Option(help="Namespace of the operator, if it is not to be looked for in all."),
]
Run = Annotated[str | None, typer.Option("--run", help="Only of this run of the trainer bridge.")]
GroupName = Annotated[str | None, typer.Option("--group", help="Only of this group.")]
Verdicts = Annotated[
    list[Verdict] | None, typer.Option("--verdict", help="Only with this verdict; repeatable.")
]
Reasons = Annotated[
    list[str] | None, typer.Option("--reason", help="Only with this reason; repeatable.")
]
Phases = Annotated[
    list[Phase] | None, typer.Option("--phase", help="Only in this phase; repeatable.")
]
Selector = Annotated[
    str | None, typer.Option("-l", "--selector", help="Label selector, as of kubectl.")
]


def plain(as_json: bool) -> bool:
    """Whether results are written as JSON."""
    return as_json or not Console().is_terminal
