"""Episodes as rows: what is taken from the API server's table, and what is shown."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console, RenderableType

from episode_operator.api.reasons import Phase, Verdict
from episode_operator.kube.rows import Row, age, ordered
from episode_operator.kube.selection import Selection
from episode_operator.kube.tables import Line
from episodectl import listing, rows

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def line(name: str = "hello", *, seconds: float = 41, **cells: Any) -> Line:
    """A line as the API server gives it."""
    every = dict.fromkeys(("Phase", "Verdict", "Reward", "Turns", "Reason", "Attempt", "Pod"))
    metadata = {
        "name": name,
        "namespace": "space",
        "uid": f"uid-of-{name}",
        "creationTimestamp": (NOW - timedelta(seconds=seconds)).isoformat(),
        "labels": {"episodes.dev/run": "coding", "episodes.dev/group": "coding-000001"},
    }
    return Line(metadata, every | cells)


def printed(shown: RenderableType) -> list[str]:
    console = Console(width=120, no_color=True)
    with console.capture() as capture:
        console.print(shown)
    return [text.rstrip() for text in capture.get().splitlines()]


def passed(name: str = "hello", **more: Any) -> Row:
    cells = {"Phase": "Finished", "Verdict": "Passed", "Reward": 0.5, "Turns": 2}
    return Row.of(line(name, **{**cells, "Reason": "TestsPassed", **more}))


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-3, "0s"),
        (0, "0s"),
        (41.9, "41s"),
        (60, "1m"),
        (185, "3m5s"),
        (7200, "2h"),
        (7_260, "2h1m"),
        (7_205, "2h"),
        (86_400 * 5 + 3 * 3600 + 59, "5d3h"),
    ],
)
def test_ages(seconds: float, shown: str) -> None:
    assert age(seconds) == shown


def test_the_table() -> None:
    shown = printed(rows.table([passed(), Row.of(line("b"))], namespaces=False, now=NOW))
    assert [text.split() for text in shown] == [
        ["NAME", "PHASE", "VERDICT", "REWARD", "TURNS", "REASON", "AGE"],
        ["hello", "Finished", "Passed", "0.5", "2", "TestsPassed", "41s"],
        ["b", "41s"],
    ]
    assert printed(rows.table([passed()], namespaces=True, now=NOW))[1].startswith("space")


def test_what_does_not_exist_yet_is_null_and_never_a_zero() -> None:
    told = Row.of(line()).to_json()
    assert told["reward"] is None and told["turns"] is None and told["phase"] is None
    assert (told["run"], told["group"], told["podName"]) == ("coding", "coding-000001", None)


def test_the_oldest_comes_first() -> None:
    found = [Row.of(line("new", seconds=1)), Row.of(line("old", seconds=9))]
    assert [row.name for row in ordered(found)] == ["old", "new"]


def test_selections() -> None:
    failed = line(Phase="Finished", Verdict="Failed", Reason="TestsFailed")
    assert Selection().takes(failed) and Selection().takes(line())
    assert Selection(verdicts=[Verdict.PASSED, Verdict.FAILED]).takes(failed)
    assert not Selection(verdicts=[Verdict.PASSED]).takes(failed)
    assert not Selection(verdicts=[Verdict.FAILED], reasons=["OOMKilled"]).takes(failed)
    assert not Selection(phases=[Phase.RUNNING]).takes(line())
    assert Selection().labels == ""
    chosen = Selection("coding", "g" * 80, "team in (a,b)").labels
    assert chosen.startswith("episodes.dev/run=coding,episodes.dev/group=ggg")
    assert chosen.endswith(",team in (a,b)") and "g" * 64 not in chosen


def test_a_screen_holds_the_newest_and_counts_all() -> None:
    found = [passed(f"e{number}") for number in range(9)] + [Row.of(line("x", Phase="Running"))]
    shown = printed(listing.screen(found, namespaces=False, height=7, now=NOW))
    assert [text.split()[0] for text in shown] == ["NAME", "e7", "e8", "x", "10"]
    assert shown[-1] == "10 Episodes: 9 Passed, 1 Running; 7 older ones above"
    assert printed(listing.screen([], namespaces=False, height=9))[-1] == "no Episodes"


def test_changes_are_told_once() -> None:
    before = {"a": passed("a"), "b": passed("b")}
    now = {"a": passed("a"), "b": passed("b", Turns=3), "c": passed("c")}
    told = [(one["name"], one["turns"], one["gone"]) for one in listing.changes(before, now)]
    assert told == [("b", 3, False), ("c", 2, False)]
    assert [(one["name"], one["gone"]) for one in listing.changes(now, before)] == [
        ("b", False),
        ("c", True),
    ]
