"""Which namespaces are an operator's, by its settings."""

import pytest

from episode_operator import main
from episode_operator.settings import Settings, SettingsError


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPISODE_RUNNER_IMAGE", "runner")


@pytest.mark.parametrize(
    ("watched", "ignored", "name", "included"),
    [
        ("", "", "any", True),
        ("a,b", "", "b", True),
        ("a,b", "", "ab", False),
        ("", "test-own-*", "test-own-1", False),
        ("", "test-own-*", "test-1", True),
        ("", "test-own-*", "my-test-own-1", True),
        ("", "a,team-[bc],x?", "team-c", False),
        ("", "a,team-[!bc],x?", "team-c", True),
        ("", "a,team-[bc],x?", "x1", False),
        ("", "a,team-[bc],x?", "x12", True),
        ("a,b", "b*", "b", False),
        ("a,b", "b*", "a", True),
    ],
)
def test_a_namespace_is_ours_unless_a_pattern_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, watched: str, ignored: str, name: str, included: bool
) -> None:
    monkeypatch.setenv("EPISODE_WATCH_NAMESPACES", watched)
    monkeypatch.setenv("EPISODE_IGNORE_NAMESPACES", ignored)
    settings = Settings.from_environment()
    assert settings.namespaces.include(name) is included
    assert main.is_ours(name, main.Memo(settings=settings)) is included


@pytest.mark.parametrize("pattern", ["Team-*", "team b", "team_b", "team.*", "a/b", "{a}"])
def test_a_pattern_that_can_match_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    """Two operators would drive the Episodes that it was to leave alone."""
    monkeypatch.setenv("EPISODE_IGNORE_NAMESPACES", f"fine-*,{pattern}")
    with pytest.raises(SettingsError, match=r"EPISODE_IGNORE_NAMESPACES: .* matches no namespace"):
        Settings.from_environment()
