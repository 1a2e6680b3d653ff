"""task.toml with any content."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.checks import tasks
from tests.fuzz.profile import PROFILE
from tests.harbor.generate import task_toml

FILES = st.integers(0, 10**6).map(lambda seed: task_toml(Random(seed)))
NUMBERS = st.one_of(
    st.integers(-2, 10**7).map(str),
    st.floats(-1, 10**7).map(repr),
    st.sampled_from(["nan", "inf", "-inf", "1e999", "1e40", "true", '"30"', '"2G"', "9" * 4500]),
)
NUMERIC = """\
[verifier]
timeout_sec = {}
[agent]
timeout_sec = {}
[environment]
cpus = {}
memory_mb = {}
[environment.healthcheck]
command = "true"
interval_sec = {}
timeout_sec = {}
"""


@PROFILE
@given(FILES)
def test_what_is_taken_has_the_numbers_of_the_file(toml: str) -> None:
    tasks.check(toml.encode())


@PROFILE
@given(st.lists(NUMBERS, min_size=6, max_size=6))
def test_numbers_of_any_kind(numbers: list[str]) -> None:
    tasks.check(NUMERIC.format(*numbers).encode())


@PROFILE
@given(FILES, st.data())
def test_a_damaged_file(toml: str, data: st.DataObject) -> None:
    whole = toml.encode()
    at = data.draw(st.integers(0, len(whole)))
    until = data.draw(st.integers(at, min(at + 5, len(whole))))
    tasks.check(whole[:at] + data.draw(st.binary(max_size=5)) + whole[until:])


def test_a_file_that_says_something_is_taken() -> None:
    spec = tasks.check(NUMERIC.format(45.5, '"30"', 1.25, 2048, 1, 3).encode())
    assert spec is not None and spec.verifier is not None
    assert (spec.verifier.timeout_seconds, spec.agent.timeout_seconds) == (46, 30)
    assert (spec.sandbox.resources.cpu, spec.sandbox.resources.memory) == ("1250m", "2048Mi")
