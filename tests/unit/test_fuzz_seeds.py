"""Every seed of the fuzz targets, and so every input that once showed a fault."""

from pathlib import Path

import pytest

from tests.fuzz.targets import SEEDS, TARGETS

FILES = [(name, seed) for name, target in TARGETS.items() for seed in target.seeds(name)]


@pytest.mark.parametrize(("name", "seed"), FILES, ids=[f"{n}/{s.name}" for n, s in FILES])
def test_seed(name: str, seed: Path) -> None:
    data = seed.read_bytes()
    assert len(data) <= TARGETS[name].most_bytes
    TARGETS[name].check(data)


def test_every_folder_of_seeds_has_a_target() -> None:
    assert {folder.name for folder in SEEDS.iterdir()} == set(TARGETS)
