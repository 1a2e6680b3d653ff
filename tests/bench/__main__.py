"""Command line of the measurements: `python -m tests.bench exec`, and the others below."""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Annotated

import typer
from rich.console import Console

from tests.bench import bridge_bench, exec_bench, harbor, opd_bench, start_bench, view_bench
from tests.bench.report import Measured
from tests.bench.target import ensure_target
from tests.testbed.console import console, step
from tests.testbed.errors import TestbedError
from tests.testbed.stack import ROOT

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__
)
WIDTH = 190
"""Columns of the table where the output is no terminal."""


@app.callback()
def all_measurements() -> None:
    """Measurements; docs/benchmarks.md says what they mean."""


@app.command("exec")
def exec_(
    repeats: Annotated[int, typer.Option(min=1, help="How often all is measured.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.2, help="Measured per number.")] = 5.0,
    warm_up: Annotated[float, typer.Option(min=0.0, help="Seconds before that.")] = 1.0,
    seccomp: Annotated[bool, typer.Option(help="Give the pod an Episode's filter.")] = False,
    without_harbor: Annotated[bool, typer.Option(help="Leave Harbor out.")] = False,
) -> None:
    """What a command in a pod costs: floor, our session, kubernetes stream, Harbor."""
    target = ensure_target()
    os.environ["KUBECONFIG"] = target.kubeconfig
    python = None
    if not without_harbor:
        with step("Harbor's environment") as say:
            python = harbor.ensure_harbor(say)
    settings = exec_bench.Settings(repeats, warm_up, seconds, seccomp)
    _show("bench-exec", exec_bench.measure(target, python, settings, console.print))


@app.command()
def start(
    repeats: Annotated[int, typer.Option(min=1, help="How often all is measured.")] = 3,
    pods: Annotated[int, typer.Option(min=1, help="Starts of each kind in a repeat.")] = 20,
    at_once: Annotated[int, typer.Option(min=2, help="Then so many at the same time.")] = 10,
) -> None:
    """How long until a sandbox's first command has run, against a plain pod's Ready."""
    target = ensure_target()
    os.environ["KUBECONFIG"] = target.kubeconfig
    settings = start_bench.Settings(repeats, pods, at_once)
    _show("bench-start", start_bench.measure(target, settings, console.print))


@app.command()
def opd(
    repeats: Annotated[int, typer.Option(min=1, help="How often all is measured.")] = 3,
) -> None:
    """What a teacher computes for each token of a trajectory, and what payloads cost."""
    settings = opd_bench.Settings(repeats)
    _show("bench-opd", opd_bench.measure(settings, console.print))


@app.command()
def bridge(
    repeats: Annotated[int, typer.Option(min=1, help="How often all is measured.")] = 5,
) -> None:
    """How fast groups get to Atropos, against a POST of bytes that are ready."""
    settings = bridge_bench.Settings(repeats)
    _show("bench-bridge", bridge_bench.measure(settings, console.print))


@app.command()
def view(
    repeats: Annotated[int, typer.Option(min=1, help="How often all is measured.")] = 5,
) -> None:
    """How soon a browser paints a long trajectory, against a page with nothing on it."""
    settings = view_bench.Settings(repeats)
    _show("bench-view", view_bench.measure(settings, console.print))


def _show(name: str, measuring: Coroutine[None, None, Measured]) -> None:
    """Measure, write the report and print it."""
    report = _run(measuring)
    for file in report.write(ROOT / "reports", name):
        console.print(f"written: {file.relative_to(ROOT)}")
    answer = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDTH)
    for part in (*report.tables(), *report.lines()):
        answer.print(part)


def _run(measuring: Coroutine[None, None, Measured]) -> Measured:
    """Run it; an interrupt or a request to terminate cleans up first."""

    async def watched() -> Measured:
        task = asyncio.ensure_future(measuring)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await task

    try:
        return asyncio.run(watched())
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise TestbedError("stopped; what it had started is gone") from None


def main() -> None:
    """Run the command line; show a TestbedError as text, never as a traceback."""
    try:
        app()
    except TestbedError as error:
        print(error.render(), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
