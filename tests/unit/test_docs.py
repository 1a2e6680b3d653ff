"""What the documentation names is there: files, make targets, reasons; its Episodes are valid."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from episode_operator.api.episode import EpisodeSpec
from episode_operator.api.reasons import MalformedCallKind, NoVerdictReason
from tests import documented
from tests.documented import FENCE

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "examples/README.md")),
        *(ROOT / "docs").glob("*.md"),
    ]
)
INLINE_CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
MAKE = re.compile(r"\bmake ([a-z][a-z-]*)")
TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def code(page: Path) -> str:
    """All code of a page: its fenced blocks, and what stands between backquotes."""
    text = page.read_text()
    blocks = [block for _, block in FENCE.findall(text)]
    return "\n".join([*blocks, *INLINE_CODE.findall(FENCE.sub("", text))])


def episodes(page: Path) -> list[dict[str, Any]]:
    """The Episodes in a page's YAML blocks."""
    blocks = [block for language, block in FENCE.findall(page.read_text()) if language == "yaml"]
    found = [loaded for block in blocks for loaded in yaml.safe_load_all(block)]
    return [one for one in found if isinstance(one, dict) and one.get("kind") == "Episode"]


@pytest.mark.parametrize("reason", NoVerdictReason)
def test_every_reason_has_a_row_in_verdicts(reason: NoVerdictReason) -> None:
    assert f"| NoVerdict | `{reason}` |" in (ROOT / "docs" / "verdicts.md").read_text()


@pytest.mark.parametrize("kind", MalformedCallKind)
def test_every_kind_of_malformed_call_has_a_row_in_tokens(kind: MalformedCallKind) -> None:
    assert f"| `{kind}` |" in (ROOT / "docs" / "tokens.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files(page: Path) -> None:
    links = [link.partition("#")[0] for link in LINK.findall(page.read_text())]
    relative = [link for link in links if link and "://" not in link]
    assert [link for link in relative if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_make_targets_exist(page: Path) -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text()))
    assert set(MAKE.findall(code(page))) <= targets


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_episodes_are_valid(page: Path) -> None:
    for episode in episodes(page):
        assert episode["apiVersion"] == "episodes.dev/v1alpha1"
        EpisodeSpec.model_validate(episode["spec"])


def test_the_readme_shows_an_episode() -> None:
    assert episodes(ROOT / "README.md")


TABLES = (
    *documented.RUN.values(),
    documented.UNENDING,
    documented.TESTED,
    documented.NOT_RUN,
    documented.DRY,
)


def test_every_command_is_proven_in_one_way() -> None:
    shown = {command for page in documented.PAGES for command in documented.commands(page)}
    ways = Counter(command for table in TABLES for command in table)
    assert sorted(shown - ways.keys()) == [], "add it to tests/documented.py"
    assert sorted(ways.keys() - shown) == [], "no page has it"
    assert [command for command, count in ways.items() if count > 1] == []


@pytest.mark.parametrize("where", sorted({*documented.TESTED.values()}))
def test_what_proves_a_command_is_there(where: str) -> None:
    file, _, name = where.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text()
