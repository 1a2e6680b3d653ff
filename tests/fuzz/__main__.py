"""`make fuzz`: looks for inputs that break what reads foreign bytes; exits 1 if it finds one."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tests.fuzz.environment import ensure_atheris
from tests.fuzz.runs import Run, fuzz
from tests.fuzz.targets import TARGETS
from tests.testbed.console import console, step
from tests.testbed.errors import TestbedError
from tests.testbed.stack import ROOT

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)


@app.command()
def main(
    target: Annotated[
        str, typer.Argument(help=f"One of {', '.join(TARGETS)}; all if it is left out.")
    ] = "",
    seconds: Annotated[int, typer.Option(min=1, help="How long, for each target.")] = 60,
) -> None:
    """Fuzz one target or all, one after the other."""
    if target and target not in TARGETS:
        raise typer.BadParameter(f"{target!r} is none of {', '.join(TARGETS)}")
    with step("fuzzing environment") as say:
        python = ensure_atheris(say)
    runs = [_one(python, name, seconds) for name in ([target] if target else TARGETS)]
    Console(highlight=False, soft_wrap=True).print(_table(runs))
    raise typer.Exit(1 if any(run.finding for run in runs) else 0)


def _one(python: Path, name: str, seconds: int) -> Run:
    with step(f"{name}, {seconds} s") as say:
        run = fuzz(python, name, seconds, say)
    if run.finding is not None:
        console.print(run.output, markup=False)
    return run


def _table(runs: list[Run]) -> Table:
    table = Table("target", "executions", "seconds", "points reached", "corpus")
    table.add_column("finding", overflow="fold")
    for run in runs:
        numbers = (f"{run.executions:,}", run.seconds, run.coverage, run.corpus)
        finding = "none" if run.finding is None else str(run.finding.relative_to(ROOT))
        table.add_row(run.target, *map(str, numbers), finding)
    return table


if __name__ == "__main__":
    try:
        app()
    except TestbedError as error:
        print(error.render(), file=sys.stderr)
        sys.exit(1)
