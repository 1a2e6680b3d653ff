"""The table by fault, and what is not as it should be."""

from collections.abc import Iterable, Sequence

from rich.table import Table

from tests.chaos.judge import End, Outcome

_COLUMNS = (
    "Episodes",
    "struck",
    "retried",
    "right",
    "gave up",
    "wrong",
    "lost",
    "doubled",
    "leaked",
)
_BAD = ("wrong", "lost", "doubled", "leaked")


def table(outcomes: Sequence[Outcome], title: str) -> Table:
    """One row for each fault, in the order of first appearance, and one for all."""
    shown = Table("fault", title=title)
    for column in _COLUMNS:
        shown.add_column(column, justify="right")
    for fault in dict.fromkeys(outcome.planned.fault.name for outcome in outcomes):
        of_it = [outcome for outcome in outcomes if outcome.planned.fault.name == fault]
        shown.add_row(fault, *_cells(of_it))
    shown.add_section()
    shown.add_row("all", *_cells(outcomes))
    return shown


def counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """How many outcomes are so, by column."""
    ends = {str(end): sum(o.end is end for o in outcomes) for end in End}
    flags = ("struck", "retried", "doubled", "leaked")
    return {
        "Episodes": len(outcomes),
        **ends,
        **{flag: sum(getattr(o, flag) for o in outcomes) for flag in flags},
    }


def bad(outcomes: Iterable[Outcome]) -> list[str]:
    """One line for each Episode that is wrong, lost, doubled or leaked."""
    return [
        f"{o.planned.name} ({o.planned.known.kind}; {o.planned.fault.name}): {o.end}"
        f"{', doubled' if o.doubled else ''}{', leaked' if o.leaked else ''}, "
        f"right is {o.planned.known.verdict} {o.planned.known.reward:g}: {o.detail}"
        for o in outcomes
        if o.end in (End.WRONG, End.LOST) or o.doubled or o.leaked
    ]


def _cells(outcomes: Sequence[Outcome]) -> list[str]:
    counted = counts(outcomes)
    return [
        f"[red]{counted[name]}[/]" if name in _BAD and counted[name] else str(counted[name])
        for name in _COLUMNS
    ]
