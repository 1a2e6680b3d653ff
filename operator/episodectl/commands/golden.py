"""`episodectl golden`."""

import asyncio
import signal
import time
import uuid
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from episode_operator.kube.client import KubernetesClient
from episodectl.golden import GoldenRunner, scan
from episodectl.options import AsJson, Namespace, plain
from episodectl.outcome import Mark, Outcome
from episodectl.report import Watch, show
from episodectl.running import FAILED, on_cluster, say
from trainer_bridge.sources import Options, load


def golden(
    *,
    tasks: Annotated[
        list[Path],
        typer.Argument(help="Task folders, folders of task folders, or .jsonl files of rows."),
    ],
    parallel: Annotated[
        int, typer.Option("-p", "--parallel", min=1, help="Episodes at a time.")
    ] = 4,
    image: Annotated[
        str | None,
        typer.Option(help="Images of the tasks, with {name} and {tag} in place of theirs."),
    ] = None,
    namespace: Namespace = None,
    timeout: Annotated[
        int,
        typer.Option(min=2, max=86_400, help="Seconds a solution may take if its task sets none."),
    ] = 1800,
    as_json: AsJson = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep Episodes, results, files.")] = False,
) -> None:
    """Run each task's own solution on the cluster of the kubeconfig: pass, fail or ERR.

    ERR is a task that cannot be read or got no verdict. The exit code is 0 only if all pass.
    """
    options = Options(image=image)
    found = [one for path in tasks for one in load(path, options)]
    started = time.monotonic()
    watch = Watch(Console(stderr=True), len(found))

    async def run(client: KubernetesClient) -> list[Outcome]:
        _cancel_on_sigterm()
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
                say(f"not deleted: {leftover}", "red")
            if keep or runner.leftovers:
                say(f"kubectl get episodes,configmaps -l {runner.selector}")

    with watch.shown():
        outcomes = on_cluster(run)
    seconds = time.monotonic() - started
    show(Console(), outcomes, as_json=plain(as_json), seconds=seconds)
    passed = bool(outcomes) and all(outcome.mark is Mark.PASS for outcome in outcomes)
    raise typer.Exit(0 if passed else FAILED)


def _cancel_on_sigterm() -> None:
    """End as on Ctrl-C, so that what was made is deleted."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
