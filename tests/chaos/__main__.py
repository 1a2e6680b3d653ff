"""`make chaos N=200 SEED=7`: exit 1 unless nothing is wrong, lost, doubled or leaked."""

import asyncio
import logging
import os
import secrets
import sys
import time
import uuid
from random import Random
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from episode_operator.kube import connection
from episode_operator.kube.client import KubernetesClient
from tests.chaos import report
from tests.chaos.faults import FAULTS, World
from tests.chaos.judge import Outcome
from tests.chaos.known import Images
from tests.chaos.model import ModelServer
from tests.chaos.plan import plan
from tests.chaos.run import Say, run
from tests.testbed import built_in, choice, stack
from tests.testbed.errors import TestbedError

AT_A_TIME = 12
HEARTBEAT_SECONDS = 30.0

console = Console(highlight=False)


def main(
    count: Annotated[int, typer.Option(help="How many Episodes.")] = 200,
    seed: Annotated[int | None, typer.Option(help="Of the plan; drawn when not given.")] = None,
    at_a_time: Annotated[int, typer.Option(help="How many Episodes at once.")] = AT_A_TIME,
) -> None:
    """Bring the testbed up and let random faults loose on it."""
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    console.print(f"seed {seed}")
    try:
        cluster = choice.current()
        running = stack.up(cluster)
    except TestbedError as error:
        print(error.render(), file=sys.stderr)
        raise typer.Exit(1) from error
    os.environ.update(running.environment)
    logging.getLogger("stamina").setLevel(logging.ERROR)  # an API server that is away is expected
    here = isinstance(cluster, built_in.BuiltIn)
    outcomes = asyncio.run(_run(running, count, seed, at_a_time, on_this_machine=here))
    console.print(report.table(outcomes, f"{count} Episodes, seed {seed}"))
    bad = report.bad(outcomes)
    for line in bad:
        console.print(line, style="red", markup=False)
    raise typer.Exit(1 if bad else 0)


async def _run(
    running: stack.Stack, count: int, seed: int, at_a_time: int, *, on_this_machine: bool
) -> list[Outcome]:
    faults = [fault for fault in FAULTS if on_this_machine or not fault.on_this_machine]
    for fault in set(FAULTS) - set(faults):
        console.print(f"not on this cluster: {fault.name}")
    images = Images(running.images["task-python"], running.images["task-busybox"])
    namespace = f"chaos-{uuid.uuid4().hex[:6]}"
    async with (
        KubernetesClient(await connection.load()) as client,
        ModelServer.running(running.host_address) as server,
    ):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.request("POST", "/api/v1/namespaces", body=body)
        planned = plan(count, Random(seed), faults, images, server)
        try:
            with _progress() as progress:
                say = _teller(progress, count)
                world = World(client, namespace)
                return await run(world, planned, at_a_time=at_a_time, say=say)
        finally:
            await client.request("DELETE", f"/api/v1/namespaces/{namespace}")


def _progress() -> Progress:
    return Progress(
        TextColumn("chaos"),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("waiting for {task.description}"),
        console=console,
        transient=True,
    )


def _teller(progress: Progress, count: int) -> Say:
    """A bar on a terminal; elsewhere a line now and then."""
    bar = progress.add_task("the first pods", total=count)
    last = time.monotonic()

    def say(ended: int, waiting: str) -> None:
        nonlocal last
        progress.update(bar, completed=ended, description=waiting)
        if not console.is_terminal and time.monotonic() - last > HEARTBEAT_SECONDS:
            last = time.monotonic()
            console.print(f"{ended} of {count} ended, waiting for {waiting}")

    return say


if __name__ == "__main__":
    typer.run(main)
