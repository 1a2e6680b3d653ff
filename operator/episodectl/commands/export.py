"""`episodectl export`."""

from pathlib import Path
from typing import Annotated

import typer

from episode_operator.kube.client import KubernetesClient
from episode_operator.kube.selection import Selection
from episode_operator.results.record import EpisodeRecord
from episodectl import exporting, options
from episodectl.errors import CommandError
from episodectl.running import NOT_DONE, on_cluster, reporting, say
from trainer_bridge.sinks import files
from trainer_bridge.sinks.base import RefusedError


class _Export:
    """Writes records, and counts."""

    def __init__(self, folder: Path | None, *, messages: bool, neutral_fill: bool) -> None:
        self._folder = folder
        self._messages = messages
        self._neutral_fill = neutral_fill
        self.written = 0
        self.unreadable = 0

    def take(self, name: str, record: EpisodeRecord | Exception) -> None:
        """Write a record, or tell why it is left out."""
        if isinstance(record, Exception):
            self._leave_out(name, record)
            return
        try:
            written = self._write(record)
        except RefusedError as error:
            self._leave_out(name, error)
            return
        self.written += written
        if not written:
            kind = record.result.spec.agent_kind
            say(f"left out: {name}: an agent of kind {kind} samples no tokens", "yellow")

    def _leave_out(self, name: str, why: Exception) -> None:
        self.unreadable += 1
        say(f"left out: {name}: {why}", "red")

    def _write(self, record: EpisodeRecord) -> bool:
        if self._folder is None:
            line = exporting.line(
                record, include_messages=self._messages, neutral_fill=self._neutral_fill
            )
            typer.echo(line, nl=False)
            return True
        data = exporting.arrays(record, neutral_fill=self._neutral_fill)
        if data is not None:
            files.write(self._folder / f"{record.result.metadata['name']}.safetensors", data)
        return data is not None


def export(
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names of Episodes or EpisodeResults; without them, all that are selected.",
            autocompletion=options.complete_results,
        ),
    ] = None,
    namespace: options.Namespace = None,
    run: options.Run = None,
    group: options.GroupName = None,
    verdict: options.Verdicts = None,
    reason: options.Reasons = None,
    selector: options.Selector = None,
    safetensors: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write the arrays, a file for each result, there."),
    ] = None,
    messages: Annotated[
        bool, typer.Option("--messages/--no-messages", help="Conversations, in JSON.")
    ] = True,
    neutral_fill: Annotated[
        bool,
        typer.Option(
            "--neutral-fill",
            help="Give sampled positions without a teacher the student's own values.",
        ),
    ] = False,
) -> None:
    """Write results as lines of JSON to standard output, or as safetensors into a folder.

    Results without a verdict have no reward, and are left out unless --verdict or a name asks for
    them. The exit code is 2 if a result could not be written.
    """
    with reporting():
        if names and any((run, group, verdict, reason, selector)):
            raise CommandError("give names, or what selects results; not both")
        if safetensors is not None:
            files.prepare(safetensors)
    writer = _Export(safetensors, messages=messages, neutral_fill=neutral_fill)
    selection = Selection(run, group, selector, verdict or exporting.SCORED, reason or ())

    async def work(client: KubernetesClient) -> None:
        where = namespace or client.connection.namespace
        chosen = names or await exporting.selected(client, where, selection)
        async for name, record in exporting.read(client, where, chosen):
            writer.take(name, record)

    on_cluster(work)
    say(f"{writer.written} written, {writer.unreadable} could not be", "dim")
    raise typer.Exit(NOT_DONE if writer.unreadable else 0)
