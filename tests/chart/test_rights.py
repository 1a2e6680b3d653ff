"""Rights of the chart's accounts are those that docs/operations.md lists, each with a reason."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart.cases import BRIDGE, NAMESPACE, RELEASE, manifests, pods
from tests.chart.rights import Account, Right, granted

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
OPERATOR_TABLE, BRIDGE_TABLE = re.findall(
    r"^\| what \| verbs \| why \|\n\|[-|]+\n((?:\|.*\n)+)",
    PAGE.partition("\n### Rights\n")[2].partition("\n### ")[0],
    re.MULTILINE,
)
WITHOUT_GROUP = tuple[str, str, str]
"""Resource, name, verb."""


def documented(table: str) -> Iterator[WITHOUT_GROUP]:
    """The rights of a table: a cell names resources, and an object of theirs in backticks."""
    for line in table.splitlines():
        what, verbs, why = line.strip("| ").split(" | ")
        assert why
        for resource in re.split(r", ", re.split(r" [(`]| in ", what)[0]):
            for verb in verbs.split(", "):
                yield resource, (re.findall(r"`(.+?)`", what) or [""])[0], verb


def made(case: str, name: str, *places: str) -> set[WITHOUT_GROUP]:
    account = Account(NAMESPACE, name)
    found: set[Right] = set()
    for where in places:
        found |= granted(manifests(case), account, where)
    return {(right.resource, right.name, right.verb) for right in found}


def test_the_operators() -> None:
    told = list(documented(OPERATOR_TABLE))
    assert len(told) == len(set(told))
    everywhere = made("defaults", RELEASE, NAMESPACE)
    assert everywhere == set(told) - {("secrets", "", "get")}
    narrow = made("namespaces", RELEASE, NAMESPACE, "team-a")
    namespaces = {("namespaces", "", "list"), ("namespaces", "", "watch")}
    assert narrow == set(told) - namespaces
    assert made("namespaces", RELEASE, "team-a") == made("namespaces", RELEASE, "team-b")


@pytest.mark.parametrize("case", ["bridge", "only a bridge", "everything"])
def test_the_bridges(case: str) -> None:
    run = BRIDGE["config"]["run"]
    told = [
        (resource, name.replace("RUN", run), verb)
        for resource, name, verb in documented(BRIDGE_TABLE)
    ]
    assert len(told) == len(set(told))
    assert made(case, f"{RELEASE}-bridge", NAMESPACE) == set(told)
    assert made(case, f"{RELEASE}-bridge", "team-a") == set()


def test_nobody_elses() -> None:
    """vLLM and Atropos run as their namespace's default account, which gets nothing."""
    for component in ("vllm", "atropos"):
        assert "serviceAccountName" not in pods("everything")[component]["spec"]
    assert made("everything", "default", NAMESPACE) == set()
