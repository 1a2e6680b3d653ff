"""Episodes as a table on a terminal."""

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from episode_operator.kube.rows import Row, age

VERDICT_STYLES = {"Passed": "green", "Failed": "red", "NoVerdict": "yellow"}


def table(rows: Sequence[Row], *, namespaces: bool, now: datetime | None = None) -> Table:
    """The columns of `kubectl get episodes`, verdicts in colour."""
    moment = now or datetime.now(UTC)
    found = Table(box=None, pad_edge=False, header_style="bold")
    for name in (*(("NAMESPACE",) if namespaces else ()), "NAME", "PHASE", "VERDICT"):
        found.add_column(name, no_wrap=True)
    for name in ("REWARD", "TURNS"):
        found.add_column(name, justify="right", no_wrap=True)
    for name in ("REASON", "AGE"):
        found.add_column(name, no_wrap=True)
    for row in rows:
        found.add_row(
            *((Text(row.namespace),) if namespaces else ()),
            Text(row.name),
            Text(row.phase or ""),
            Text(row.verdict or "", style=VERDICT_STYLES.get(row.verdict or "", "")),
            "" if row.reward is None else f"{row.reward:g}",
            "" if row.turns is None else str(row.turns),
            Text(row.reason or ""),
            age((moment - row.created).total_seconds()),
        )
    return found
