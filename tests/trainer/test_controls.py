"""Each control changes just one thing."""

from dataclasses import replace

import numpy as np
import pytest

from examples.trainer.controls import CONTROLS, controlled
from examples.trainer.rows import Row
from tests.trainer.groups import LOGPROBS, group, rows, sampled_logprobs


def as_plain(found: list[Row]) -> list[object]:
    """For comparing."""
    return [
        (row.tokens.tolist(), row.sampled.tolist(), row.logprobs.tolist(), row.score, row.group)
        for row in found
    ]


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_repeats_itself_and_leaves_its_input(name: str) -> None:
    found = rows(group(taught=True), group())
    before = as_plain(found)
    changed = as_plain(controlled(found, name, seed=1, step=2))
    assert as_plain(found) == before != changed
    assert as_plain(controlled(found, name, seed=1, step=2)) == changed
    assert controlled(found, None, seed=1, step=2) is found


def test_a_shifted_mask_trains_the_next_token_with_the_logprob_of_its_own() -> None:
    row = controlled(rows(group(taught=True)), "mask-shift", seed=0, step=0)[1]
    assert np.flatnonzero(row.sampled).tolist() == [4, 5, 7]
    assert sampled_logprobs(row) == [LOGPROBS[0], LOGPROBS[1], LOGPROBS[2]]
    assert row.teacher is not None
    assert row.teacher.positions.tolist() == [4], "that of the last token fell out"
    assert row.teacher.token_ids.tolist() == [8, 3]


def test_a_row_without_a_sampled_token_is_gone() -> None:
    found = rows(group())
    only = found[0].sampled.copy()
    only[:-1] = False
    row = replace(found[0], sampled=only)
    assert controlled([row], "mask-shift", seed=0, step=0) == []


def test_rewards_are_shuffled_within_their_group() -> None:
    found = rows(group(scores=[0, 1, 2, 3]), group(scores=[4, 5, 6, 7]))
    seen = set()
    for step in range(20):
        changed = [row.score for row in controlled(found, "shuffled-rewards", seed=0, step=step)]
        assert sorted(changed[:4]) == [0, 1, 2, 3] and sorted(changed[4:]) == [4, 5, 6, 7]
        seen.add(tuple(changed))
    assert len(seen) > 10


def test_every_token_has_the_logprob_of_another() -> None:
    for step in range(20):
        row = controlled(rows(group()), "other-logprobs", seed=0, step=step)[0]
        found = sampled_logprobs(row)
        assert sorted(found) == sorted(LOGPROBS)
        assert all(one != own for one, own in zip(found, LOGPROBS, strict=True))
        assert set(row.logprobs[~row.sampled].tolist()) == {1.0}
