"""What `episodectl top` says: how the Episodes of a namespace, or of all, get on."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from episode_operator.api.reasons import Phase
from episode_operator.kube.rows import Row, age
from episode_operator.kube.tables import Line
from episodectl.rows import VERDICT_STYLES
from episodectl.usage import Usage

NOT_TAKEN_UP = "NotTakenUp"
"""In place of a phase that no operator has set yet."""

_WAITING = (None, Phase.STARTING)


@dataclass(frozen=True, slots=True)
class Ended:
    """A result that was written in the last minutes."""

    verdict: str
    reason: str
    turns: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Overview:
    """All of it.

    Attributes:
        phases: number of live Episodes by phase.
        oldest_waiting: the Episode that has waited longest for its sandbox.
        now: when this was read.
        minutes: how far back `ended` goes.
        ended: what was finished since, also of Episodes that are deleted.
        usage: of the sandboxes; why not, where it is not known.
    """

    phases: Mapping[str, int]
    oldest_waiting: Row | None
    now: datetime
    minutes: int
    ended: Sequence[Ended]
    usage: Usage | str

    def to_json(self) -> dict[str, Any]:
        """The values by name; seconds, cores and bytes."""
        waiting = self.oldest_waiting
        verdicts, reasons = self._counts()
        return {
            "live": sum(self.phases.values()),
            "phases": dict(self.phases),
            "oldestWaiting": None
            if waiting is None
            else {
                "namespace": waiting.namespace,
                "name": waiting.name,
                "seconds": (self.now - waiting.created).total_seconds(),
            },
            "minutes": self.minutes,
            "finished": len(self.ended),
            "finishedPerMinute": len(self.ended) / self.minutes,
            "turns": sum(one.turns for one in self.ended),
            "tokens": sum(one.tokens for one in self.ended),
            "verdicts": dict(verdicts),
            "reasons": dict(reasons),
            "pods": None if isinstance(self.usage, str) else self.usage.pods,
            "cpu": None if isinstance(self.usage, str) else self.usage.cpu,
            "memory": None if isinstance(self.usage, str) else self.usage.memory,
        }

    def _counts(self) -> tuple[Counter[str], Counter[str]]:
        verdicts = Counter(one.verdict for one in self.ended)
        return verdicts, Counter(one.reason for one in self.ended)

    def print(self, console: Console) -> None:
        """For people."""
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(style="dim", no_wrap=True)
        table.add_column()
        phases = ", ".join(f"{count} {phase}" for phase, count in self.phases.items())
        table.add_row("live", Text(phases or "none"))
        if self.oldest_waiting is not None:
            waited = age((self.now - self.oldest_waiting.created).total_seconds())
            row = self.oldest_waiting
            table.add_row("oldest waiting", Text(f"{row.namespace}/{row.name} for {waited}"))
        table.add_row("pods", Text(_used(self.usage)))
        table.add_row(f"last {self.minutes} min", Text(self._throughput()))
        verdicts, reasons = self._counts()
        for name, counts in (("verdicts", verdicts), ("reasons", reasons)):
            if counts:
                table.add_row(name, shares(counts))
        console.print(table)

    def _throughput(self) -> str:
        turns, tokens = (
            sum(one.turns for one in self.ended),
            sum(one.tokens for one in self.ended),
        )
        return (
            f"{len(self.ended)} finished, {len(self.ended) / self.minutes:.3g} a minute; "
            f"{turns} turns, {tokens} tokens"
        )


def live(lines: Iterable[Line]) -> tuple[dict[str, int], Row | None]:
    """The live Episodes by phase, in the order of their life, and the one that waits longest."""
    rows = [row for row in map(Row.of, lines) if row.phase != Phase.FINISHED]
    counts = Counter(row.phase or NOT_TAKEN_UP for row in rows)
    phases = {str(phase): counts[phase] for phase in (NOT_TAKEN_UP, *Phase) if counts[phase]}
    waiting = [row for row in rows if row.phase in _WAITING]
    return phases, min(waiting, key=lambda row: row.created, default=None)


def ended(lines: Iterable[Line], *, now: datetime, minutes: int) -> list[Ended]:
    """The results of the last minutes; a result is made as soon as there is a verdict."""
    since = now - timedelta(minutes=minutes)
    return [
        Ended(
            line.cells["Verdict"],
            line.cells["Reason"],
            line.cells["Turns"] or 0,
            line.cells["Tokens"] or 0,
        )
        for line in lines
        if datetime.fromisoformat(line.metadata["creationTimestamp"]) >= since
    ]


def shares(counts: Counter[str]) -> Text:
    """Each with its number and its share, the most frequent first."""
    text = Text()
    for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        text.append(", " if text else "")
        text.append(name, VERDICT_STYLES.get(name, ""))
        text.append(f" {count} ({count / counts.total():.0%})")
    return text


def _used(usage: Usage | str) -> str:
    if isinstance(usage, str):
        return f"CPU and memory are not known: {usage}"
    return f"{usage.pods} with {usage.cpu:.2f} cores and {usage.memory / 2**20:.0f} MiB together"
