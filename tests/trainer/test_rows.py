"""What is fetched becomes rows as it is, or is refused; advantages from scores and a teacher."""

from collections.abc import Callable

import numpy as np
import pytest

from examples.trainer.advantages import group_advantages, teacher_advantages, token_advantages
from examples.trainer.rows import BatchError, read
from tests.trainer.groups import LOGPROBS, SAMPLED, TOKENS, Json, group, rows, sampled_logprobs


def test_rows_are_what_was_sent() -> None:
    found = rows(group(), group(taught=True))
    assert [row.group for row in found] == [0] * 4 + [1] * 4
    assert [row.score for row in found] == [0.0, 1.0, 0.0, 0.5] * 2
    for row in found:
        assert row.tokens.tolist() == TOKENS and row.sampled.tolist() == SAMPLED
        assert sampled_logprobs(row) == LOGPROBS
        assert set(row.logprobs[~row.sampled].tolist()) == {1.0}
    assert [row.teacher is not None for row in found] == [False] * 5 + [True] + [False] * 2
    teacher = found[5].teacher
    assert teacher is not None
    assert teacher.positions.tolist() == [3, 7] and teacher.counts.tolist() == [2, 3]
    assert teacher.token_ids.tolist() == [8, 3, 1, 2, 3]
    assert teacher.logprobs.tolist() == [-0.25, -2.0, -1.0, -2.0, -3.0]


def test_a_logprob_is_the_float32_that_was_recorded() -> None:
    recorded = np.float32(-1 / 3)
    sent = group()
    sent["inference_logprobs"][0][3] = float(str(recorded))
    assert rows(sent)[0].logprobs[3] == recorded


def put(name: str, index: int, value: object) -> Callable[[Json], None]:
    """Another value in row 2."""

    def change(sent: Json) -> None:
        sent[name][2][index] = value

    return change


def instead(name: str, value: object) -> Callable[[Json], None]:
    """Another value for all rows."""

    def change(sent: Json) -> None:
        sent[name] = value

    return change


def cut(name: str) -> Callable[[Json], None]:
    """One less in row 2."""

    def change(sent: Json) -> None:
        sent[name][2].pop()

    return change


def teach(ids: object, logprobs: object, *, at: int = 3) -> Callable[[Json], None]:
    """A teacher of position `at` of row 2."""

    def change(sent: Json) -> None:
        sent.update(group(taught=True))
        sent["distill_token_ids"][2][at], sent["distill_logprobs"][2][at] = ids, logprobs

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (cut("tokens"), "7 tokens, 8 masks, 8 logprobs"),
        (cut("masks"), "8 tokens, 7 masks"),
        (cut("inference_logprobs"), "7 logprobs"),
        (cut("distill_token_ids"), "shape of the row"),
        (cut("distill_logprobs"), "shape of the row"),
        (instead("scores", [1.0, 0.0]), "different numbers of rows"),
        (instead("inference_logprobs", None), "is missing"),
        (instead("distill_logprobs", None), "alone"),
        (instead("advantages", [[1.0]]), "'advantages': not supported"),
        (instead("generation_params", {"temperature": 0.7}), "temperature 0.7"),
        (instead("generation_params", {"top_p": 0.9}), "top_p 0.9"),
        (put("masks", 3, 9), "a mask is neither -100 nor its token"),
        (put("masks", 3, 0), "a mask is neither -100 nor its token"),
        (put("masks", 0, 5), "not begin with one"),
        (instead("masks", [[-100] * 8] * 4), "must have sampled tokens"),
        (put("inference_logprobs", 3, 0.1), "above 0"),
        (put("inference_logprobs", 3, float("nan")), "not finite"),
        (put("inference_logprobs", 3, float("-inf")), "not finite"),
        (put("inference_logprobs", 3, None), "not a list of numbers"),
        (put("inference_logprobs", 0, 0.0), "where nothing was sampled"),
        (put("tokens", 0, 5.0), "not a list of integers"),
        (put("tokens", 0, True), "not a list of integers"),
        (put("tokens", 0, 64), "none of the model's 64"),
        (put("tokens", 0, -1), "none of the model's 64"),
        (instead("scores", [0.0, 1.0, float("nan"), 0.0]), "no finite number"),
        (instead("scores", [0.0, 1.0, "1", 0.0]), "no finite number"),
        (teach([1], [-1.0], at=2), "where nothing was sampled"),
        (teach([1, 2], [-1.0]), "shape of the row"),
        (teach([1], [0.5]), "above 0"),
        (teach([1], [float("nan")]), "not finite"),
        (teach([1, 2], [-0.1, -0.2]), "add up to 1.7"),
        (teach([1, 1], [-2.0, -2.0]), "twice"),
        (teach([64], [-1.0]), "none of the model's 64"),
    ],
)
def test_what_does_not_fit_is_refused(change: Callable[[Json], None], said: str) -> None:
    sent = group(taught=True)
    change(sent)
    with pytest.raises(BatchError, match=said):
        rows(group(), sent)


def test_a_batch_of_another_size_or_length_is_refused() -> None:
    with pytest.raises(BatchError, match="4 rows instead of 8"):
        rows(group(), size=8)
    with pytest.raises(BatchError, match="a row of 8 tokens; fewer than 8"):
        rows(group(), max_token_length=8)
    for answer in (b"", b"[]", b"{}", b'{"batch": [null]}'):
        with pytest.raises(BatchError, match="this is no batch"):
            read(answer, size=4, max_token_length=100, vocabulary=64)


def test_advantages_are_relative_to_the_group() -> None:
    found = group_advantages(rows(group(), group(scores=[0.1] * 4), group(scores=[3, 1, 1, 3])))
    scores = np.array([0.0, 1.0, 0.0, 0.5])
    expected = (scores - 0.375) / np.sqrt(np.mean((scores - 0.375) ** 2))
    np.testing.assert_allclose(found[:4], expected, atol=1e-5)
    assert found[4:8].tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(found[8:], [1, -1, -1, 1], atol=1e-5)


def test_a_teachers_advantage_is_known_where_it_listed_the_sampled_token() -> None:
    found = rows(group(taught=True))
    values = teacher_advantages(found[1])
    assert values[0] == -0.25 - LOGPROBS[0], "8, the sampled id, is listed"
    assert np.isnan(values[1:]).all(), "not scored twice, then not listed"
    assert np.isnan(teacher_advantages(found[0])).all()


def test_advantages_are_weighted_and_the_teachers_is_clipped() -> None:
    found = rows(group(taught=True))
    by_group = group_advantages(found)
    mixed = token_advantages(found, reward_weight=2.0, teacher_weight=10.0, teacher_clip=0.125)
    np.testing.assert_allclose(mixed[0], 2 * by_group[0])
    np.testing.assert_allclose(mixed[1] - 2 * by_group[1], [1.25, 0, 0, 0], atol=1e-6)
