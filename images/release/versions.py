"""Where the version is written, and that it is the same everywhere."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from images.release.errors import ReleaseError

CHART = Path("charts") / "episode-operator"
IMAGE_VALUES = {
    "operator": ("operator", "image"),
    "runner": ("operator", "runnerImage"),
    "bridge": ("bridge", "image"),
}
"""Images of ours by name: the chart's value that names each."""

_SECTION = re.compile(r"^## (?P<version>\S+) \((?P<date>[^)]+)\)$", re.MULTILINE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True)
class Project:
    """What pyproject.toml says of the project."""

    name: str
    version: str
    license: str


@dataclass(frozen=True)
class Section:
    """A version's section of the changelog; `date` is a date, or `unreleased`."""

    version: str
    date: str
    text: str


def project(root: Path) -> Project:
    """The project of a repository."""
    table = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return Project(table["name"], table["version"], table["license"])


def changelog(root: Path) -> Section:
    """The top section.

    Raises:
        ReleaseError: there is none.
    """
    text = (root / "CHANGELOG.md").read_text()
    match = _SECTION.search(text)
    if match is None:
        raise ReleaseError("CHANGELOG.md has no section `## VERSION (DATE)`")
    after = _SECTION.search(text, match.end())
    section = text[match.end() : after.start() if after else len(text)]
    return Section(match["version"], match["date"], section.strip())


def stated(root: Path) -> dict[str, str]:
    """The version by each place that states it."""
    chart: dict[str, Any] = yaml.safe_load((root / CHART / "Chart.yaml").read_text())
    values: dict[str, Any] = yaml.safe_load((root / CHART / "values.yaml").read_text())
    images = {
        f"values.yaml {part}.{value}": str(values[part][value]).rpartition(":")[2]
        for part, value in IMAGE_VALUES.values()
    }
    return {
        "pyproject.toml": project(root).version,
        "Chart.yaml version": str(chart["version"]),
        "Chart.yaml appVersion": str(chart["appVersion"]),
        **images,
        "CHANGELOG.md": changelog(root).version,
    }


def agreed(places: Mapping[str, str]) -> str:
    """The one version of all places.

    Raises:
        ReleaseError: they do not agree; the text has what each says.
    """
    if len(set(places.values())) != 1:
        lines = [f"  {place}: {version}" for place, version in places.items()]
        raise ReleaseError("\n".join(["the versions do not agree:", *lines]))
    return next(iter(places.values()))


def check_tag(tag: str, section: Section) -> None:
    """Whether a Git tag is that of the version, and the version is dated.

    Raises:
        ReleaseError: it is not.
    """
    if tag != f"v{section.version}":
        raise ReleaseError(f"the tag is {tag}, the version {section.version}")
    if not _DATE.fullmatch(section.date):
        raise ReleaseError(
            f"CHANGELOG.md says {section.version} ({section.date}): write the day, as YYYY-MM-DD"
        )
