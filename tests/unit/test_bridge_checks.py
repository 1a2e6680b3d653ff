"""What is never sent: each fault alone, in a group that is right in all else."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from episode_operator.api.agent import Sampling
from episode_operator.api.reasons import Verdict
from episode_operator.api.result import Counts, EpisodeReference, ModelReference
from episode_operator.results.distillation import Distillation
from episode_operator.results.payload import TokenRow
from episode_operator.results.record import EpisodeRecord
from tests.atropos.groups import changed, group
from trainer_bridge.sinks.base import RefusedError
from trainer_bridge.sinks.checks import check_group, check_lengths, check_messages, check_models
from trainer_bridge.training import TrainingGroup

WHOLE = group(scored=5)
POSITION = 20
"""Of a sampled token of member 1; its teacher scored the first five sampled ones only."""


def record(index: int = 1) -> EpisodeRecord:
    return WHOLE.members[index]


def row() -> TokenRow:
    found = record().row
    assert found is not None and found.mask[POSITION]
    return found


def distillation() -> Distillation:
    found = record().distillation
    assert found is not None
    return found


def at(array: Any, place: Any, value: float) -> Any:
    other = array.copy()
    other[place] = value
    return other


def with_spec(**changes: Any) -> TrainingGroup:
    result = record().result
    spec = result.spec.model_copy(update=changes)
    return changed(WHOLE, 1, result=result.model_copy(update={"spec": spec}))


def with_row(**changes: Any) -> TrainingGroup:
    return changed(WHOLE, 1, row=replace(row(), **changes))


def with_distillation(**changes: Any) -> TrainingGroup:
    return changed(WHOLE, 1, distillation=replace(distillation(), **changes))


def reason(whole: TrainingGroup) -> str:
    with pytest.raises(RefusedError) as refused:
        check_group(whole, size=4)
    assert str(refused.value).startswith(f"{whole.name}: ")
    return refused.value.reason


def test_a_group_that_is_right_is_sent() -> None:
    check_group(WHOLE, size=4)
    check_lengths(WHOLE, limit=44)
    check_models(WHOLE)
    check_messages(WHOLE)


@pytest.mark.parametrize("size", [3, 5])
def test_a_group_has_exactly_its_size(size: int) -> None:
    with pytest.raises(RefusedError, match=f"4 members, {size} expected") as refused:
        check_group(WHOLE, size=size)
    assert refused.value.reason == "WrongSize"


def test_an_episode_is_in_a_group_once() -> None:
    assert reason(with_spec(episode=EpisodeReference(name="again", uid="uid-0"))) == "Doubled"


def test_no_verdict_is_not_a_reward() -> None:
    assert reason(with_spec(reward=None, verdict=Verdict.NO_VERDICT)) == "NoReward"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_are_finite(value: float) -> None:
    logprobs = at(row().logprobs, POSITION, value)
    assert reason(with_spec(reward=float(value))) == "NonFinite"
    assert reason(with_row(logprobs=logprobs)) == "NonFinite"
    assert reason(with_distillation(logprobs=at(distillation().logprobs, (2, 1), value))) == (
        "NonFinite"
    )
    sampled = at(distillation().sampled_logprobs, 4, value)
    assert reason(with_distillation(sampled_logprobs=sampled)) == "NonFinite"


def test_the_text_says_where() -> None:
    with pytest.raises(RefusedError, match=r"^run-0: hello-1: logprobs: nan at 20$"):
        check_group(with_row(logprobs=at(row().logprobs, POSITION, np.nan)), size=4)


def test_something_was_sampled() -> None:
    nothing = np.zeros_like(row().mask)
    assert reason(changed(WHOLE, 1, row=None, distillation=None)) == "NoTokens"
    assert reason(with_row(mask=nothing, logprobs=np.zeros_like(row().logprobs))) == "NoTokens"


@pytest.mark.parametrize(
    "broken",
    [
        lambda: with_row(tokens=at(row().tokens, 3, -1)),
        lambda: with_row(tokens=row().tokens.astype(np.int64)),
        lambda: with_row(tokens=row().tokens[:-1]),
        lambda: with_row(mask=row().mask[:-1]),
        lambda: with_row(logprobs=row().logprobs[:-1]),
        lambda: with_row(logprobs=row().logprobs.astype(np.float64)),
        lambda: with_row(logprobs=at(row().logprobs, POSITION, 0.5)),
        lambda: with_row(logprobs=at(row().logprobs, 0, -0.5)),
        lambda: with_distillation(positions=at(distillation().positions, 4, 1000)),
        lambda: with_distillation(positions=at(distillation().positions, 0, 0)),
        lambda: with_distillation(token_ids=distillation().token_ids[:, :-1]),
        lambda: with_distillation(token_ids=at(distillation().token_ids, (0, 0), -1)),
        lambda: with_distillation(logprobs=distillation().logprobs[:-1]),
        lambda: with_distillation(logprobs=at(distillation().logprobs, (0, 0), 0.1)),
        lambda: with_spec(counts=Counts(tokens=41, sampled_tokens=1)),
    ],
)
def test_lengths_types_and_ranges(broken: Any) -> None:
    assert reason(broken()) == "Malformed"


@pytest.mark.parametrize(("limit", "taken"), [(44, True), (43, False)])
def test_rows_are_shorter_than_the_limit(limit: int, taken: bool) -> None:
    """Those of the group have 40 to 43 tokens."""
    if taken:
        check_lengths(WHOLE, limit=limit)
        return
    with pytest.raises(RefusedError, match="hello-3: 43 tokens; fewer than 43") as refused:
        check_lengths(WHOLE, limit=limit)
    assert refused.value.reason == "TooLong"


def test_members_are_of_one_model_but_for_their_seeds() -> None:
    for model, expected in (
        (None, "NoModel"),
        (model_with(name="another"), "MixedModels"),
        (model_with(logprobs_mode="raw"), "MixedModels"),
        (model_with(sampling=Sampling(temperature=0.7)), "MixedModels"),
    ):
        with pytest.raises(RefusedError) as refused:
            check_models(with_spec(model=model))
        assert refused.value.reason == expected
    check_models(with_spec(model=model_with(sampling=Sampling(seed=99))))


def model_with(**changes: Any) -> ModelReference:
    model = record().result.spec.model
    assert model is not None
    return model.model_copy(update=changes)


@pytest.mark.parametrize(
    "messages",
    [
        None,
        [],
        [{"role": "user"}],
        [{"content": "hello"}],
        [{"role": "assistant", "content": None}],
        [{"role": "user", "content": "half of a pair: \ud83d"}],
        [{"role": "user", "content": "", "name": "\udc00"}],
    ],
)
def test_messages_have_a_role_and_a_text(messages: list[dict[str, Any]] | None) -> None:
    with pytest.raises(RefusedError, match="hello-2") as refused:
        check_messages(changed(WHOLE, 2, messages=messages))
    assert refused.value.reason == "BadMessages"
