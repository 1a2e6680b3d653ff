"""`make learn`: a small model gets better at terminal tasks through Episodes, on a CPU.

Brings the testbed up, starts a model server with a policy that is half able, and trains it:
Episodes -> EpisodeResults -> bridge -> Atropos -> examples/trainer -> new weights in the running
server. Stopped (Ctrl-C) and called again it goes on. It is always the built-in testbed: trainer and
model server share a folder of this machine.
"""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from episode_operator.kube import connection
from episode_operator.kube.client import KubernetesClient
from examples.learning import cluster, plots, record
from examples.learning.plan import Control, Plan, Signal
from examples.learning.run import learn
from examples.learning.warm_start import ensure_warm_start
from tests.testbed import built_in, stack
from tests.testbed.console import console, step
from tests.testbed.errors import TestbedError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

REPORTS = Path("reports") / "learning"


@app.command()
def main(  # noqa: PLR0917 (options)
    seed: Annotated[int, typer.Option(help="Decides tasks and order.")] = 0,
    signal_: Annotated[
        Signal, typer.Option("--signal", help="Learn from rewards, from hints, or from both.")
    ] = "reward",
    steps: Annotated[int, typer.Option(min=1, help="Steps of the trainer.")] = Plan.steps,
    learning_rate: Annotated[float, typer.Option(help="Of AdamW.")] = Plan.learning_rate,
    evaluated: Annotated[
        int, typer.Option(min=1, help="Held-out tasks of an evaluation.")
    ] = Plan.evaluated,
    control: Annotated[
        Control | None, typer.Option(help="Train wrongly on purpose: it must not learn.")
    ] = None,
    hints_of_another_task: Annotated[
        bool, typer.Option("--hints-of-another-task", help="Hint wrongly on purpose.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="Folder of the run; made of what is asked if not given.")
    ] = None,
) -> None:
    """Run the learning proof, or go on with it."""
    name = "-".join(
        [signal_, f"s{seed}", *([control] if control else [])]
        + (["another"] if hints_of_another_task else [])
    )
    plan = Plan(
        name=f"learn-{name}",
        output=(output or REPORTS / name).resolve(),
        seed=seed,
        signal=signal_,
        control=control,
        hints_of_another_task=hints_of_another_task,
        steps=steps,
        learning_rate=learning_rate,
        evaluated=evaluated,
    )
    try:
        asyncio.run(_run(plan))
    except TestbedError as error:
        print(error.render(), file=sys.stderr)
        raise typer.Exit(1) from error
    except (KeyboardInterrupt, asyncio.CancelledError) as error:
        console.print("stopped; the same command goes on")
        raise typer.Exit(130) from error


async def _run(plan: Plan) -> None:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    began = time.monotonic()
    with step("warm start") as say:
        warm_start = await asyncio.to_thread(ensure_warm_start, say)
    running = await asyncio.to_thread(stack.up, built_in.BuiltIn())
    os.environ.update(running.environment)
    with step("model server") as say:
        await asyncio.to_thread(cluster.install, running, warm_start, say)
    await learn(
        plan,
        running,
        warm_start,
        say=lambda text: console.print(f"{time.monotonic() - began:6.0f} s  {text}"),
    )
    async with KubernetesClient(await connection.load()) as client:
        made = await record.made(plan, client)
    file = plan.output / record.FILE
    file.write_text(json.dumps(made, indent=1))
    plots.draw({plan.name: made}, plan.output / "plots.png")
    console.print(
        f"held-out pass rate {made['before']:.0%} -> {made['after']:.0%} in "
        f"{len(made['steps'])} steps, {made['training_seconds'] / 60:.0f} min; {file}"
    )


if __name__ == "__main__":
    app()
