"""What the command line shows."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from trainer_bridge.run.bridge import Progress as RunProgress
from trainer_bridge.run.context import Context
from trainer_bridge.run.state import RunState
from trainer_bridge.statistics.evaluation import EvaluationReport


class ProgressView:
    """Bars on a terminal; elsewhere a line whenever something changed."""

    def __init__(self, console: Console, context: Context) -> None:
        self._console = console
        self._context = context
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[told]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._groups = self._bars.add_task("groups", total=None, told="")
        self._tries = self._bars.add_task("evaluation", total=None, told="", visible=False)
        self._last = ""

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def show(self, progress: RunProgress) -> None:
        """Show how the run stands."""
        state, demand = self._context.state, progress.demand
        done = state.delivered + sum(state.dropped.values())
        told = (
            f"{state.delivered} delivered, {sum(state.dropped.values())} dropped, "
            f"{progress.in_flight} in flight"
        )
        if demand.step is not None:
            told += f", step {demand.step}"
        if demand.groups == 0:
            told += ", the trainer wants none now"
        self._bars.update(self._groups, completed=done, total=progress.wanted, told=told)
        if progress.evaluating is not None:
            tried, total = progress.evaluating
            told += f", evaluation {tried}/{total}"
            self._bars.update(self._tries, completed=tried, total=total, visible=True)
        else:
            self._bars.update(self._tries, visible=False)
        if not self._console.is_terminal and told != self._last:
            self._last = told
            self._console.print(f"groups: {told}", highlight=False)


def show_status(console: Console, run: str, state: RunState) -> None:
    """A table of what became of the run's groups."""
    table = Table("run", run, title_justify="left")
    table.add_row("trainer's step", "-" if state.step is None else str(state.step))
    table.add_row("groups started", str(state.next_group))
    table.add_row("open", ", ".join(str(index) for index in state.open) or "none")
    table.add_row("delivered", str(state.delivered))
    for reason, count in sorted(state.dropped.items()):
        table.add_row(f"dropped: {reason}", str(count))
    table.add_row("arrival unknown", str(state.unknown))
    for reason, count in sorted(state.no_verdict.items()):
        table.add_row(f"run again: {reason}", str(count))
    for name, value in sorted(state.evaluation.items()):
        table.add_row(name, f"{value:.4g}")
    console.print(table)


def show_evaluation(console: Console, report: EvaluationReport) -> None:
    """A table of an evaluation's values, and the tasks that have none."""
    table = Table("value", "")
    for name, value in report.values.items():
        table.add_row(name, f"{value:.4g}")
    console.print(table)
    for task in report.unscored:
        console.print(f"[yellow]no verdict[/] {task}", highlight=False)
