"""Sampling parameters, and the refusal of logprobs that would be of another distribution."""

import pytest

from episode_operator.model.errors import RawLogprobs
from episode_operator.model.sampling import SamplingConfig, derived_seed, require_usable_logprobs


@pytest.mark.parametrize(
    "config",
    [
        SamplingConfig(temperature=0.6),
        SamplingConfig(top_p=0.9),
        SamplingConfig(top_k=50),
        SamplingConfig(min_p=0.1),
    ],
)
def test_raw_logprobs_are_refused_where_they_would_lie(config: SamplingConfig) -> None:
    """cases.md 13."""
    require_usable_logprobs(config, mode="processed")
    with pytest.raises(RawLogprobs, match="processed_logprobs"):
        require_usable_logprobs(config, mode="raw")


@pytest.mark.parametrize("config", [SamplingConfig(), SamplingConfig(temperature=0.0, top_k=5)])
def test_raw_logprobs_are_right_for_the_plain_distribution(config: SamplingConfig) -> None:
    require_usable_logprobs(config, mode="raw")


def test_every_part_of_every_turn_has_a_seed_of_its_own() -> None:
    seeds = {derived_seed(7, turn, part) for turn in range(50) for part in range(3)}
    assert len(seeds) == 150 and all(0 <= seed < 2**31 for seed in seeds)
    first = SamplingConfig(seed=7).params(max_tokens=9, turn=1, part=2)
    assert first["seed"] == derived_seed(7, 1, 2) and first["max_tokens"] == 9
    assert "seed" not in SamplingConfig().params(max_tokens=9, turn=1, part=2)
