"""Compares what a trainer got with the records, value by value, as plain Python numbers."""

from typing import Any

import numpy as np

from trainer_bridge.training import TrainingGroup


def assert_is(found: dict[str, Any], group: TrainingGroup, *, env_id: int) -> None:
    """It is the group: ids exactly, logprobs as the same float32, nothing more and nothing less."""
    assert found["env_id"] == env_id
    assert found["scores"] == [record.reward for record in group.members]
    for index, record in enumerate(group.members):
        row = record.row
        assert row is not None
        assert found["tokens"][index] == row.tokens.tolist()
        for at, sampled in enumerate(row.mask.tolist()):
            mask, logprob = found["masks"][index][at], found["inference_logprobs"][index][at]
            if sampled:
                assert mask == row.tokens[at] and np.float32(logprob) == row.logprobs[at]
            else:
                assert (mask, logprob) == (-100, 1.0)
        assert len(found["masks"][index]) == row.tokens.size
        assert len(found["inference_logprobs"][index]) == row.tokens.size
    _assert_taught(found, group)
    for name in ("advantages", "ref_logprobs", "overrides", "group_overrides", "images"):
        assert found.get(name) is None


def _assert_taught(found: dict[str, Any], group: TrainingGroup) -> None:
    if not group.distilled:
        assert found.get("distill_token_ids") is None and found.get("distill_logprobs") is None
        return
    for index, record in enumerate(group.members):
        assert record.row is not None
        ids, logprobs = found["distill_token_ids"][index], found["distill_logprobs"][index]
        expected_ids: list[list[int]] = [[] for _ in range(record.row.tokens.size)]
        expected: list[list[float]] = [[] for _ in range(record.row.tokens.size)]
        if (teacher := record.distillation) is not None:
            for at, position in enumerate(teacher.positions.tolist()):
                expected_ids[position] = teacher.token_ids[at].tolist()
                expected[position] = teacher.logprobs[at].tolist()
        assert ids == expected_ids
        assert [[float(np.float32(value)) for value in each] for each in logprobs] == expected
