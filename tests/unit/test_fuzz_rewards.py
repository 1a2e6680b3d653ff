"""Reward files and the composite reward, with any content."""

import json

from hypothesis import given
from hypothesis import strategies as st

from episode_operator.verifier.composite import AgentUse
from tests.fuzz.checks import composites, rewards
from tests.fuzz.profile import PROFILE

NEARLY_NUMBERS = st.text(alphabet="0123456789.eE+-_ \n\tnaif٣", max_size=14)
NUMBERS = st.floats().map(repr) | st.integers().map(str)
TEXTS = st.one_of(NUMBERS, NEARLY_NUMBERS, st.text(max_size=20)).map(str.encode)

NAMES = st.sampled_from(['"reward"', '"a"', '"\\u0072eward"', '"\\ud800"', '""', '"']) | st.text(
    max_size=5
).map(json.dumps)
VALUES = st.one_of(
    NUMBERS,
    NEARLY_NUMBERS,
    st.sampled_from(
        ["1", "NaN", "Infinity", "1e999", "true", "null", '"1"', "[1]", "{}", "9" * 400]
    ),
)
OBJECTS = st.lists(st.tuples(NAMES, VALUES), max_size=3).map(
    lambda pairs: ("{" + ",".join(f"{name}: {value}" for name, value in pairs) + "}").encode()
)
BYTES = st.binary(max_size=20)


@PROFILE
@given(TEXTS | BYTES)
def test_reward_txt(content: bytes) -> None:
    rewards.fuzz_text(content)


@PROFILE
@given(OBJECTS | TEXTS | BYTES)
def test_reward_json(content: bytes) -> None:
    rewards.fuzz_json(content)


@PROFILE
@given(OBJECTS, st.data())
def test_a_damaged_reward_json(content: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(content)))
    until = data.draw(st.integers(at, min(at + 3, len(content))))
    rewards.fuzz_json(content[:at] + data.draw(st.binary(max_size=2)) + content[until:])


@PROFILE
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_reading_to_compare_with_is_exact(value: float) -> None:
    assert rewards.number(repr(value)) == value
    assert rewards.components(json.dumps({"reward": value})) == {"reward": value}


USES = st.builds(
    AgentUse,
    turns=st.integers(0, 300),
    max_turns=st.integers(1, 256),
    tools=st.frozensets(
        st.sampled_from(["terminal", "process", "read_file", "write_file", "patch", "none"])
    ),
)
OUTPUTS = st.lists(
    st.sampled_from(["passed", "PASSED", "AssertionError", "assertionerror: 1", " "])
    | st.text(max_size=9)
).map("".join)


@PROFILE
@given(st.integers(0, 255), OUTPUTS, USES)
def test_composite(exit_code: int, output: str, use: AgentUse) -> None:
    composites.check(exit_code, output, use)
