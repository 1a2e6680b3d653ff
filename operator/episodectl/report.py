"""How a golden scan is shown: progress on standard error, the results on standard output."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from episodectl.outcome import Mark, Outcome

_STYLES = {Mark.PASS: "green", Mark.FAIL: "red", Mark.ERR: "yellow"}
_NAME_WIDTH = 50
_MESSAGE_LENGTH = 300


class Watch:
    """Shows how far the scan is: a bar on a terminal, else a line for each task that ends."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._counts: Counter[Mark] = Counter()
        self._running: list[str] = []
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[running]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._bar = self._progress.add_task(self._summary(), total=total, running="")

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show it while the scan runs."""
        with self._progress:
            yield

    def start(self, task: str) -> None:
        """A task's Episode is about to be made."""
        self._running.append(task)
        self._update()

    def end(self, outcome: Outcome) -> None:
        """A task has its outcome."""
        self._counts[outcome.mark] += 1
        if outcome.task in self._running:
            self._running.remove(outcome.task)
        self._update(advance=1)
        if not self._console.is_terminal:
            self._console.print(line(outcome), soft_wrap=True)

    def _update(self, advance: int = 0) -> None:
        running = f"running {', '.join(self._running)}" if self._running else ""
        self._progress.update(
            self._bar, advance=advance, description=self._summary(), running=running
        )

    def _summary(self) -> str:
        return ", ".join(f"{self._counts[mark]} {mark}" for mark in Mark)


def line(outcome: Outcome, *, width: int = 0) -> Text:
    """One task's line: result, name, seconds, reason. Only a pass or a fail has a reward."""
    text = Text(f"{outcome.mark:<5}", style=_STYLES[outcome.mark])
    text.append(f"{outcome.task:<{width}}", style="default")
    took = "" if outcome.seconds is None else f"{outcome.seconds:.0f} s"
    text.append(f"  {took:>6}", style="dim")
    if outcome.mark is not Mark.PASS:
        reward = "" if outcome.reward is None else f" reward {outcome.reward:g},"
        message = " ".join(outcome.message.split())[:_MESSAGE_LENGTH]
        text.append(f" {reward} {outcome.reason}: {message}", style="default")
    return text


def show(
    console: Console,
    outcomes: Sequence[Outcome],
    *,
    as_json: bool,
    seconds: float,
) -> None:
    """Print all results."""
    counts = Counter(outcome.mark for outcome in outcomes)
    if as_json:
        value = {
            "results": [outcome.to_json() for outcome in outcomes],
            "summary": {mark.value: counts[mark] for mark in Mark},
            "seconds": round(seconds, 1),
        }
        console.out(json.dumps(value, indent=2), highlight=False)
        return
    width = min(_NAME_WIDTH, max((len(outcome.task) for outcome in outcomes), default=0))
    for outcome in outcomes:
        console.print(line(outcome, width=width), soft_wrap=True)
        for note in outcome.notes:
            console.print(Text(f"      note: {note}", style="dim"), soft_wrap=True)
    parts = ", ".join(f"{counts[mark]} {mark}" for mark in Mark)
    console.print(f"{parts} of {len(outcomes)} in {seconds:.0f} s", highlight=False)
