"""The pytest contract (Endless Terminals): all passed is 1, a failed test is 0."""

from dataclasses import replace
from xml.etree import ElementTree

from episode_operator.api.decisions import Contract, Happening
from episode_operator.lifecycle.outcome import Failure, Scored, decided
from episode_operator.verifier.base import (
    LOGS_FOLDER,
    TESTS_FOLDER,
    Context,
    TestFile,
    Tests,
    Verification,
    put,
    read_log,
)
from episode_operator.verifier.python import run_isolated

_REPORT = "junit.xml"
_CONFIG = f"{TESTS_FOLDER}/pytest.ini"
_TEST = f"{TESTS_FOLDER}/test_final_state.py"

_MISSING = 90
_PROGRAM = f"""\
try:
    import pytest
except ImportError as error:
    print(error)
    sys.exit({_MISSING})
sys.exit(pytest.main(sys.argv))
"""
_ARGUMENTS = (
    "-q",
    "-c",
    _CONFIG,
    f"--rootdir={TESTS_FOLDER}",
    f"--confcutdir={TESTS_FOLDER}",
    "-p",
    "no:cacheprovider",
    f"--junitxml={LOGS_FOLDER}/{_REPORT}",
    _TEST,
)
_ENV = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
_ENDS = {
    2: Happening.PYTEST_INTERRUPTED,
    3: Happening.PYTEST_INTERNAL_ERROR,
    4: Happening.PYTEST_USAGE_ERROR,
    5: Happening.PYTEST_NONE_COLLECTED,
    _MISSING: Happening.PYTEST_MISSING,
}


async def verify(context: Context, *, test: str, tests: Tests) -> Verification:
    """Run pytest on the test file.

    Raises:
        NoVerdictError, SandboxError: as `run_isolated` does.
    """
    defaults = [TestFile(_CONFIG, b"[pytest]\n", 0o644), TestFile(_TEST, test.encode(), 0o644)]
    await put(context, replace(tests, files=[*defaults, *tests.files]))
    result = await run_isolated(context, _PROGRAM, *_ARGUMENTS, env=_ENV)
    report = await read_log(context, _REPORT)
    return Verification(judge(result.exit_code, report), result.stdout.text())


def judge(exit_code: int, report: bytes | None) -> Scored | Failure:
    """The verdict from pytest's exit code and its own report; both must agree."""
    ended = f"pytest ended with exit code {exit_code}"
    if exit_code not in (0, 1):
        return _none(_ENDS.get(exit_code, Happening.PYTEST_OTHER_END), ended)
    if report is None:
        return _none(Happening.PYTEST_REPORT_MISSING, f"{ended} and left no report")
    try:
        counts = _counts(report)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        message = f"pytest's report cannot be read: {error}"
        return _none(Happening.PYTEST_REPORT_UNREADABLE, message)
    return _judge_counts(counts, exit_code)


def _judge_counts(counts: dict[str, float], exit_code: int) -> Scored | Failure:
    if counts["passed"] + counts["failed"] == 0:
        return _none(Happening.PYTEST_ALL_SKIPPED, "every test was skipped")
    passed = counts["failed"] == 0
    if passed != (exit_code == 0):
        return _none(
            Happening.PYTEST_REPORT_DISAGREES,
            f"pytest's exit code {exit_code} and its report {counts} disagree",
        )
    return decided(
        Happening.PYTEST_ALL_PASSED if passed else Happening.PYTEST_SOME_FAILED,
        Contract.PYTEST,
        f"{counts['passed']:.0f} passed, {counts['failed']:.0f} failed",
        reward=1.0 if passed else 0.0,
        components=counts,
    )


def _none(happening: Happening, message: str) -> Scored | Failure:
    return decided(happening, Contract.PYTEST, message)


def _count(text: str) -> int:
    """As pytest writes it: `int` would take underscores and other scripts' digits too."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(f"{text[:20]!r} is no count")
    return int(text)


def _counts(report: bytes) -> dict[str, float]:
    root = ElementTree.fromstring(report)
    suites = list(root.iter("testsuite"))
    total, failures, errors, skipped = (
        sum(_count(suite.get(name, "0")) for suite in suites)
        for name in ("tests", "failures", "errors", "skipped")
    )
    failed = failures + errors
    if min(failures, errors, skipped, total - failed - skipped) < 0:
        raise ValueError("its counts do not add up")
    if any("name" not in case.attrib for case in root.iter("testcase")):
        raise ValueError("a test did not come to its end")
    return {
        "passed": float(total - failed - skipped),
        "failed": float(failed),
        "skipped": float(skipped),
    }
