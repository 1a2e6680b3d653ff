"""A release has one version, written everywhere, and a tag that is it."""

import shutil
from pathlib import Path

import pytest
import yaml

from images._engines import manifest_url
from images.release import artifacts, versions
from images.release.errors import ReleaseError
from images.release.versions import CHART, Section

ROOT = Path(__file__).parents[2]
FILES = ("pyproject.toml", "CHANGELOG.md", CHART / "Chart.yaml", CHART / "values.yaml")
VERSION = versions.project(ROOT).version
DIGEST = "5" * 64
REFERENCES = {
    name: f"registry.example.com/team/episode-operator/{name}@sha256:{DIGEST}"
    for name in ("operator", "runner", "bridge")
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files that state the version."""
    (tmp_path / CHART).mkdir(parents=True)
    for file in FILES:
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def test_the_repository_agrees() -> None:
    assert versions.agreed(versions.stated(ROOT)) == VERSION


@pytest.mark.parametrize(
    ("file", "text", "place"),
    [
        ("pyproject.toml", 'version = "{}"', "pyproject.toml"),
        ("CHANGELOG.md", "## {} (", "CHANGELOG.md"),
        (CHART / "Chart.yaml", "\nversion: {}", "Chart.yaml version"),
        (CHART / "Chart.yaml", "appVersion: {}", "Chart.yaml appVersion"),
        (CHART / "values.yaml", "episode-operator:{}", "values.yaml operator.image"),
        (CHART / "values.yaml", "episode-runner:{}", "values.yaml operator.runnerImage"),
        (CHART / "values.yaml", "episode-bridge:{}", "values.yaml bridge.image"),
    ],
)
def test_a_place_that_says_something_else_is_refused(
    copy: Path, file: Path | str, text: str, place: str
) -> None:
    content = (copy / file).read_text()
    assert content.count(text.format(VERSION)) == 1
    changed = content.replace(text.format(VERSION), text.format("7.8.9"))
    (copy / file).write_text(changed)
    with pytest.raises(ReleaseError) as refused:
        versions.agreed(versions.stated(copy))
    assert f"  {place}: 7.8.9" in str(refused.value).splitlines()
    assert sum("7.8.9" in line for line in str(refused.value).splitlines()) == 1


def test_the_top_section_is_the_one_that_counts(copy: Path) -> None:
    (copy / "CHANGELOG.md").write_text(
        "# Changelog\n\n## 2.0.0 (2026-12-01)\n\n- New.\n\n## 1.0.0 (2026-01-01)\n\n- Old.\n"
    )
    assert versions.changelog(copy) == Section("2.0.0", "2026-12-01", "- New.")


def test_a_changelog_without_a_section_is_refused(copy: Path) -> None:
    (copy / "CHANGELOG.md").write_text("# Changelog\n")
    with pytest.raises(ReleaseError, match="no section"):
        versions.changelog(copy)


@pytest.mark.parametrize(
    ("tag", "date", "reason"),
    [
        ("v1.2.4", "2026-12-01", r"the tag is v1\.2\.4, the version 1\.2\.3"),
        ("1.2.3", "2026-12-01", "the tag is"),
        ("v1.2.3", "unreleased", "write the day"),
        ("v1.2.3", "soon", "write the day"),
    ],
)
def test_tags_that_are_not_released(tag: str, date: str, reason: str) -> None:
    with pytest.raises(ReleaseError, match=reason):
        versions.check_tag(tag, Section("1.2.3", date, ""))


def test_the_tag_of_a_dated_version_is_released() -> None:
    versions.check_tag("v1.2.3", Section("1.2.3", "2026-12-01", ""))


def test_a_published_chart_names_published_images() -> None:
    before = (ROOT / CHART / "values.yaml").read_text()
    after = artifacts.with_images(before, REFERENCES)
    values, changed = yaml.safe_load(before), yaml.safe_load(after)
    for image, (part, key) in versions.IMAGE_VALUES.items():
        assert changed[part][key] == REFERENCES[image]
        changed[part][key] = values[part][key]
    assert changed == values
    assert before.count("# -- ") == after.count("# -- ")


@pytest.mark.parametrize("reference", ["", "registry.example.com/operator:1.2.3"])
def test_a_published_chart_names_digests(reference: str) -> None:
    with pytest.raises(ReleaseError, match="the image operator needs"):
        artifacts.with_images("", {**REFERENCES, "operator": reference})


def test_values_that_name_another_image_are_not_replaced() -> None:
    values = (ROOT / CHART / "values.yaml").read_text()
    with pytest.raises(ReleaseError, match="episode-runner 0 times"):
        artifacts.with_images(values.replace("episode-runner:", "mine:"), REFERENCES)


@pytest.mark.parametrize(
    ("registry", "plain_http", "url"),
    [
        ("localhost:5000", True, "http://localhost:5000/v2/a/b/manifests/t"),
        ("ghcr.io/team", False, "https://ghcr.io/v2/team/a/b/manifests/t"),
        ("r.example/x/y", False, "https://r.example/v2/x/y/a/b/manifests/t"),
    ],
)
def test_a_registry_may_have_a_folder(registry: str, plain_http: bool, url: str) -> None:
    assert manifest_url(registry, "a/b", "t", plain_http) == url
