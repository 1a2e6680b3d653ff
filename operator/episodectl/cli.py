"""The command line."""

import asyncio
import logging
import signal
import time
import uuid
from pathlib import Path
from typing import Annotated

import typer
from kubernetes.aio.config import ConfigException
from rich.console import Console

from episode_operator.kube import connection
from episode_operator.kube.client import ApiError, KubernetesClient
from episodectl.golden import GoldenRunner, scan
from episodectl.outcome import Mark, Outcome
from episodectl.report import Output, Watch, show
from episodectl.show import UNREADABLE, read, write_lines, write_view
from trainer_bridge.sources import Options, load

USAGE, INTERRUPTED = 2, 130

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def _main() -> None:
    """Work with tasks and Episodes."""
    # A request that is tried again is no news; one that fails in the end is an error of ours.
    logging.getLogger("stamina").setLevel(logging.ERROR)


@app.command()
def golden(
    *,
    tasks: Annotated[
        list[Path],
        typer.Argument(help="Task folders, folders of task folders, or .jsonl files of rows."),
    ],
    parallel: Annotated[
        int, typer.Option("-n", "--parallel", min=1, help="Episodes at a time.")
    ] = 4,
    image: Annotated[
        str | None,
        typer.Option(help="Images of the tasks, with {name} and {tag} in place of theirs."),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(help="Namespace; that of the kubeconfig's context if not given.")
    ] = None,
    timeout: Annotated[
        int,
        typer.Option(min=2, max=86_400, help="Seconds a solution may take if its task sets none."),
    ] = 1800,
    output: Annotated[Output, typer.Option(help="Form of the results.")] = Output.TABLE,
    keep: Annotated[bool, typer.Option("--keep", help="Keep Episodes, results, files.")] = False,
) -> None:
    """Run each task's own solution on the cluster of the kubeconfig: pass, fail or ERR.

    ERR is a task that cannot be read or got no verdict. The exit code is 0 only if all pass.
    """
    console, progress = Console(), Console(stderr=True)
    options = Options(image=image)
    found = [one for path in tasks for one in load(path, options)]
    started = time.monotonic()
    watch = Watch(progress, len(found))

    async def run() -> list[Outcome]:
        _cancel_on_sigterm()
        async with KubernetesClient(await connection.load()) as client:
            runner = GoldenRunner(
                client,
                namespace=namespace or client.connection.namespace,
                run=uuid.uuid4().hex[:8],
                seconds=timeout,
                keep=keep,
            )
            try:
                return await scan(
                    found, runner.run, parallel=parallel, on_start=watch.start, on_end=watch.end
                )
            finally:
                for leftover in runner.leftovers:
                    progress.print(f"not deleted: {leftover}", style="red", soft_wrap=True)
                if keep or runner.leftovers:
                    progress.print(f"kubectl get episodes,configmaps -l {runner.selector}")

    try:
        with watch.shown():
            outcomes = asyncio.run(run())
    except (ConfigException, OSError) as error:
        progress.print(f"no cluster: {error}", style="red")
        raise typer.Exit(USAGE) from error
    except (KeyboardInterrupt, asyncio.CancelledError) as error:
        progress.print("interrupted", style="red")
        raise typer.Exit(INTERRUPTED) from error
    show(console, outcomes, output=output, seconds=time.monotonic() - started)
    passed = bool(outcomes) and all(outcome.mark is Mark.PASS for outcome in outcomes)
    raise typer.Exit(0 if passed else 1)


@app.command("show")
def show_episode(
    *,
    episode: Annotated[str, typer.Argument(help="Name of an Episode or of an EpisodeResult.")],
    namespace: Annotated[
        str | None,
        typer.Option("-n", "--namespace", help="Namespace; that of the kubeconfig's context."),
    ] = None,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="A table of the tokens, with all their values.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="A line of JSON for the Episode, and one for each turn.")
    ] = False,
    endpoint: Annotated[
        str | None,
        typer.Option(help="URL of a server of the model, if the Episode's cannot be reached."),
    ] = None,
) -> None:
    """Show a finished Episode: verdict, reward, and its turns with their tokens in colour.

    Where standard output is no terminal it is lines of JSON. The exit code is 1 if there is no
    such result or it cannot be read, 2 if there is no cluster.
    """
    console, said = Console(highlight=False), Console(stderr=True, highlight=False)
    try:
        record, texts, why = asyncio.run(read(episode, namespace=namespace, endpoint=endpoint))
    except (ConfigException, OSError) as error:
        said.print(f"no cluster: {error}", style="red", markup=False)
        raise typer.Exit(USAGE) from error
    except UNREADABLE as error:
        said.print(str(error), style="red", markup=False, soft_wrap=True)
        unanswered = isinstance(error, ApiError) and error.status == 0
        raise typer.Exit(USAGE if unanswered else 1) from error
    except KeyboardInterrupt as error:
        raise typer.Exit(INTERRUPTED) from error
    if why is not None:
        said.print(f"ids instead of texts: {why}", style="yellow", markup=False, soft_wrap=True)
    if json or not console.is_terminal:
        write_lines(record, texts)
    else:
        write_view(console, record, texts, table=tokens)


def _cancel_on_sigterm() -> None:
    """End as on Ctrl-C, so that what was made is deleted."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
