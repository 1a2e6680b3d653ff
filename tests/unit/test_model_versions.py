"""How many updates lie between two labels."""

import pytest

from episode_operator.model import WeightVersions


def seen(*labels: str) -> WeightVersions:
    versions = WeightVersions()
    for label in labels:
        versions.see(label)
    return versions


@pytest.mark.parametrize(
    ("label", "than", "updates"),
    [
        ("12", "7", 5),
        ("7", "12", 0),  # a trainer that went back to a checkpoint
        ("7", "7", 0),
        ("c", "a", 2),
        ("a", "c", 0),
        ("b", "b", 0),
        ("7", "a", 1),  # never seen here: at least one
        ("unseen", "unseen", 0),
        ("unseen", "a", 1),
        ("9" * 5000, "a", 1),
        ("٣", "1", 1),  # a digit, but no number of ours
    ],
)
def test_newer_by(label: str, than: str, updates: int) -> None:
    assert seen("a", "b", "b", "c", "a").newer_by(label, than) == updates


def test_a_first_number_after_a_name() -> None:
    assert seen("default", "1", "2").newer_by("2", "default") == 2
