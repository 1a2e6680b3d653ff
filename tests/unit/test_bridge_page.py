"""The page of rollouts, read as a browser does."""

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.unit.mixed_groups import HOSTILE, mixed, written
from trainer_bridge.sinks.base import SinkError
from trainer_bridge.training import TrainingGroup


class Page(HTMLParser):
    """The elements and the texts of a page, as a browser reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


async def page_of(folder: Path, *groups: TrainingGroup) -> Page:
    sink = await written(folder, "jsonl", *groups)
    await sink.close()
    page = Page()
    page.feed((folder / "index.html").read_text())
    return page


async def test_the_page_shows_every_text_and_runs_none(tmp_path: Path) -> None:
    group = replace(mixed(), task="<b>task</b>")
    page = await page_of(tmp_path, group)
    assert HOSTILE in page.texts
    assert "<img src=x onerror=alert(1)>" in page.texts
    assert "run-0: <b>task</b>" in page.texts
    known = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "details"}
    assert {tag for tag, _ in page.elements} <= known | {"summary", "div", "b"}
    attributes = {
        name for tag, names in page.elements if tag not in ("html", "meta") for name in names
    }
    assert attributes == {"class"}
    assert "default-src 'none'" in (tmp_path / "index.html").read_text()


async def test_the_page_shows_the_groups_written_last(tmp_path: Path) -> None:
    names = [f"run-{number}" for number in range(103)]
    page = await page_of(tmp_path, *map(mixed, names))
    assert "100 of 103 groups, the last ones written." in page.texts
    headings = [text for text in page.texts if text.endswith(": snow")]
    assert headings == [f"{name}: snow" for name in names[3:]]


async def test_a_damaged_file_is_told_at_the_end(tmp_path: Path) -> None:
    sink = await written(tmp_path, "jsonl", mixed())
    (tmp_path / "data" / "run-0.jsonl").write_text("{")
    with pytest.raises(SinkError, match=r"run-0\.jsonl is damaged"):
        await sink.close()
