"""The arithmetic on a tiny model, and that each loss moves it where it should."""

import pytest

from tests.trainer.conftest import Worker

TASK = 5


def test_a_shared_prefix_changes_no_logprob(worker: Worker) -> None:
    found = worker("shared_prefix_logprobs")
    assert [one["prefix"] for one in found] == [0, 1, 12]
    for one in found:
        assert one["shared"] == [one["prefix"] + TASK - 1], "all but what predicts a sampled token"
        assert one["rows"] == 8 and one["difference"] <= 1e-5 < one["spread"]


@pytest.mark.parametrize("loss", ["advantage", "topk-kl"])
def test_micro_batches_have_the_gradient_of_the_whole_batch(worker: Worker, loss: str) -> None:
    found = worker("gradients", opd_loss=loss)
    assert found["norm"] > 1e-3 and found["clipped"] > 0
    for size in (1, 3, 8):
        assert found[f"by {size}"] < 1e-4, found
        assert found[f"clipped by {size}"] == found["clipped"]


def test_the_top_k_kl_is_that_of_its_outcomes(worker: Worker) -> None:
    found = worker("divergence_cases")
    assert found["all listed"] < 1e-5 and found["all listed, gradient"] < 1e-5
    assert found["same"] < 1e-5
    assert found["least"] > 0 and found["above the whole"] < 1e-5


def test_the_ratio_is_1_on_rows_of_the_same_weights(worker: Worker) -> None:
    assert worker("ratio", control=None) < 1e-4
    assert worker("ratio", control="shuffled-rewards") < 1e-4
    assert worker("ratio", control="mask-shift") > 0.1
    assert worker("ratio", control="other-logprobs") > 0.1


def test_better_rows_become_likelier_and_worse_ones_less(worker: Worker) -> None:
    found = worker("reward_learning")
    assert {one["advantage"] > 0 for one in found} == {True, False}
    for one in found:
        assert one["gain"] * one["advantage"] > 0 or abs(one["advantage"]) < 0.5, found


@pytest.mark.parametrize(("loss", "left"), [("advantage", 0.9), ("topk-kl", 0.6)])
def test_the_policy_moves_toward_the_teacher(worker: Worker, loss: str, left: float) -> None:
    found = worker("teacher_learning", opd_loss=loss)
    for before, after in zip(found["before"], found["after"], strict=True):
        assert after < left * before, found


def test_an_interrupted_run_ends_with_the_same_weights(worker: Worker) -> None:
    found = worker("resumed")
    assert found["moved"] > 1e-5 and found["difference"] <= 1e-6
    assert found["kept"] == ["step-5", "step-6"]
    assert found["record"] == {"step": 5}
