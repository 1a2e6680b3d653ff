"""Groups as Atropos's JSON, read back: the same ids and the same float32 at every position."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pydantic import ValidationError

from episode_operator.results.distillation import Distillation
from episode_operator.results.payload import TokenRow
from tests.atropos.groups import changed, group, record
from tests.atropos.reading import assert_is
from tests.atropos.sinks import settings
from trainer_bridge.sinks.atropos import AtroposSettings, AtroposSink
from trainer_bridge.sinks.atropos.answers import Registered, read
from trainer_bridge.sinks.atropos.client import shown
from trainer_bridge.sinks.atropos.encoding import encode
from trainer_bridge.sinks.base import RefusedError, SinkError
from trainer_bridge.training import TrainingGroup

IDS = st.integers(0, 2**31 - 1)
LOGPROBS = st.floats(max_value=0.0, allow_nan=False, allow_infinity=False, width=32)


@st.composite
def rows(draw: st.DrawFn) -> TokenRow:
    n = draw(st.integers(1, 40))
    mask = draw(arrays.arrays(np.bool_, n))
    mask[draw(st.integers(0, n - 1))] = True
    logprobs = draw(arrays.arrays(np.float32, n, elements=LOGPROBS))
    return TokenRow(
        tokens=draw(arrays.arrays(np.int32, n, elements=IDS)),
        mask=mask,
        logprobs=np.where(mask, logprobs, np.float32(0)),
        turn=np.zeros(n, np.int16),
    )


@st.composite
def teachers(draw: st.DrawFn, row: TokenRow) -> Distillation | None:
    """Of any of the sampled positions; what its values mean is not looked at here."""
    if draw(st.booleans()):
        return None
    sampled = np.flatnonzero(row.mask)
    chosen = draw(arrays.arrays(np.bool_, sampled.size))
    positions, k = sampled[chosen].astype(np.int32), draw(st.integers(1, 4))
    shape = (positions.size, k)
    return Distillation(
        positions=positions,
        token_ids=draw(arrays.arrays(np.int32, shape, elements=IDS)),
        logprobs=draw(arrays.arrays(np.float32, shape, elements=LOGPROBS)),
        sampled_logprobs=np.zeros(positions.size, np.float32),
    )


@st.composite
def groups(draw: st.DrawFn) -> TrainingGroup:
    members = []
    for member in range(draw(st.integers(1, 4))):
        row = draw(rows())
        score = draw(st.floats(allow_nan=False, allow_infinity=False))
        values = draw(teachers(row))
        members.append(record(row, member=member, distillation=values, reward=score))
    return TrainingGroup("run-0", "task", "family", None, tuple(members))


def encoded(whole: TrainingGroup, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode(whole, 7, settings(**options)))
    return found


@given(groups())
def test_what_is_encoded_is_what_was_recorded(whole: TrainingGroup) -> None:
    assert_is(encoded(whole), whole, env_id=7)


@given(rows(), st.integers(1, 6))
def test_rounded_logprobs_are_the_nearest_of_so_many_decimals(row: TokenRow, digits: int) -> None:
    whole = TrainingGroup("run-0", "task", "family", None, (record(row),))
    found = encoded(whole, logprob_decimals=digits)["inference_logprobs"][0]
    for value, exact, sampled in zip(found, row.logprobs, row.mask, strict=True):
        if sampled:
            assert value <= 0
            assert np.float32(value) == np.float32(round(float(exact), digits))
        else:
            assert value == 1.0


def test_rounding_makes_the_teachers_values_shorter_too() -> None:
    found = encoded(group(scored=4), logprob_decimals=2)
    texts = {str(value) for each in found["distill_logprobs"][0] for value in each}
    assert texts and all(len(text.partition(".")[2]) <= 2 for text in texts)


def test_only_the_teachers_likeliest_tokens_go_along() -> None:
    whole = group(scored=4, k=5)
    found = encoded(whole, distill_top_k=2)
    for index, member in enumerate(whole.members[:-1]):
        assert member.distillation is not None
        for at, position in enumerate(member.distillation.positions):
            ids = member.distillation.token_ids[at].tolist()
            assert found["distill_token_ids"][index][position] == ids[:2]
            assert len(found["distill_logprobs"][index][position]) == 2
    assert encoded(whole, distill_top_k=9) == encoded(whole)


def test_without_a_teacher_its_fields_are_absent() -> None:
    assert not {"distill_token_ids", "distill_logprobs", "messages"} & encoded(group()).keys()


def test_a_member_that_no_teacher_saw_has_an_empty_list_everywhere() -> None:
    whole = group(scored=4, tokens=40)
    assert whole.members[-1].distillation is None
    assert encoded(whole)["distill_token_ids"][-1] == [[]] * 43


def test_no_position_is_filled_in() -> None:
    found = encoded(group(scored=4))["distill_logprobs"][0]
    assert sorted(map(len, found)) == [0] * 36 + [3] * 4


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("logprobs", np.float32(math.nan), "not finite"),
        ("logprobs", np.float32(0.5), "above 0"),
        ("tokens", np.int32(-100), "a logprob at a masked position"),
    ],
)
def test_what_was_made_is_looked_at_again(name: str, value: Any, told: str) -> None:
    """Even where nobody has checked the group before."""
    whole = group(scored=4)
    row = whole.members[0].row
    assert row is not None
    arrays_ = row.arrays()
    arrays_[name] = np.where(row.mask, value, arrays_[name])
    with pytest.raises(RefusedError, match=told) as refused:
        encode(changed(whole, 0, row=TokenRow(**arrays_)), 0, settings())
    assert refused.value.reason == "Malformed"


@pytest.mark.parametrize("reward", [None, math.nan, math.inf])
def test_no_score_is_left_out_or_made_up(reward: float | None) -> None:
    whole = changed(group(), 1, result=record(_row(), member=1, reward=1.0).result)
    broken = whole.members[1].result
    spec = broken.spec.model_copy(update={"reward": reward})
    broken = broken.model_copy(update={"spec": spec})
    with pytest.raises(RefusedError, match="score"):
        encode(changed(whole, 1, result=broken), 0, settings())


def test_the_sink_checks_everything() -> None:
    sink = AtroposSink(settings(max_token_length=44))
    sink.check(group())
    for whole, reason in (
        (group(size=3), "WrongSize"),
        (group(tokens=41), "TooLong"),
        (changed(group(), 0, result=record(_row(), member=9, model=None).result), "NoModel"),
    ):
        with pytest.raises(RefusedError) as refused:
            sink.check(whole)
        assert refused.value.reason == reason


def test_messages_matter_only_if_they_are_sent() -> None:
    whole = changed(group(), 0, messages=None)
    AtroposSink(settings()).check(whole)
    with pytest.raises(RefusedError, match="no messages"):
        AtroposSink(settings(include_messages=True)).check(whole)


def _row() -> TokenRow:
    row = group().members[0].row
    assert row is not None
    return row


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "atropos:8000"},
        {"group_size": 0},
        {"weight": 0.0},
        {"weight": math.inf},
        {"poll_seconds": 5},
        {"min_batch_allocation": 1.5},
        {"gzip": 3},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    known = {"url": "http://atropos", "name": "a", "group_size": 4, "max_token_length": 2048}
    AtroposSettings(**known)
    with pytest.raises(ValidationError):
        AtroposSettings(**{**known, **wrong})


def test_an_answer_of_something_else_is_told() -> None:
    with pytest.raises(SinkError, match=r"/register-env answered .*env_id: .*check the URL"):
        read(Registered, "/register-env", {"env_id": "one"})


def test_an_answer_is_shown_in_short() -> None:
    assert shown("é".encode() * 10_000) == "é" * 500
    assert shown(b"\xff") == "\ufffd"
