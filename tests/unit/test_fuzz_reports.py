"""pytest's report with any content, under any exit code."""

from hypothesis import given
from hypothesis import strategies as st

from episode_operator.api.reasons import Verdict
from episode_operator.lifecycle.outcome import Scored
from tests.fuzz.checks import reports
from tests.fuzz.profile import PROFILE

EXIT_CODES = st.integers(0, 5) | st.integers(-1, 300)
COUNTS = st.integers(0, 40)
ODD_COUNTS = st.integers(-3, 5).map(str) | st.sampled_from(["", "1_0", "٣", "1.0", "9" * 330, " 1"])


def suite(**counts: object) -> str:
    attributes = " ".join(f'{name}="{count}"' for name, count in counts.items())
    return f"<testsuite {attributes}></testsuite>"


def report(*suites: str) -> bytes:
    return f"<?xml version='1.0'?><testsuites>{''.join(suites)}</testsuites>".encode()


@PROFILE
@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_what_pytest_says_is_taken(passed: int, failed: int, errors: int, skipped: int) -> None:
    total = passed + failed + errors + skipped
    said = report(suite(tests=total, failures=failed, errors=errors, skipped=skipped))
    right, wrong = (1, 0) if failed + errors else (0, 1)
    end = reports.check(right, said)
    if passed + failed + errors == 0:
        assert end.reason == "NoTestsCollected"
        return
    assert isinstance(end, Scored)
    assert end.verdict is (Verdict.FAILED if failed + errors else Verdict.PASSED)
    assert not isinstance(reports.check(wrong, said), Scored)


@PROFILE
@given(
    EXIT_CODES,
    st.lists(
        st.builds(
            suite, tests=ODD_COUNTS, failures=ODD_COUNTS, errors=ODD_COUNTS, skipped=ODD_COUNTS
        ),
        max_size=2,
    ),
)
def test_odd_counts(exit_code: int, suites: list[str]) -> None:
    reports.check(exit_code, report(*suites))


@PROFILE
@given(EXIT_CODES, st.data())
def test_a_damaged_report(exit_code: int, data: st.DataObject) -> None:
    whole = report(suite(tests=2, failures=exit_code & 1))
    at = data.draw(st.integers(0, len(whole)))
    until = data.draw(st.integers(at, min(at + 5, len(whole))))
    reports.check(exit_code, whole[:at] + data.draw(st.binary(max_size=5)) + whole[until:])


@PROFILE
@given(EXIT_CODES, st.none() | st.binary(max_size=60))
def test_any_bytes(exit_code: int, content: bytes | None) -> None:
    assert not isinstance(reports.check(exit_code, content), Scored)
