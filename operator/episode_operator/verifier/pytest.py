"""The pytest contract (Endless Terminals): all passed is 1, a failed test is 0."""

from xml.etree import ElementTree

from episode_operator.api.reasons import NoVerdictReason, Verdict
from episode_operator.lifecycle.outcome import Failure, Scored
from episode_operator.sandbox.results import ExecResult
from episode_operator.verifier.base import (
    LOGS_FOLDER,
    TESTS_FOLDER,
    Context,
    TestFile,
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
_NO_VERDICT = {
    2: (NoVerdictReason.VERIFIER_ERROR, "pytest was interrupted or could not collect the tests"),
    3: (NoVerdictReason.VERIFIER_ERROR, "pytest failed internally"),
    4: (NoVerdictReason.VERIFIER_ERROR, "pytest was called in a wrong way"),
    5: (NoVerdictReason.NO_TESTS_COLLECTED, "pytest collected no test"),
    _MISSING: (NoVerdictReason.PYTEST_MISSING, "the image's Python has no pytest"),
}


async def verify(context: Context, *, test: str, files: list[TestFile]) -> Verification:
    """Run pytest on the test file.

    Raises:
        VerifierTimeoutError, SandboxError: as `run` does.
    """
    defaults = [TestFile(_CONFIG, b"[pytest]\n", 0o644), TestFile(_TEST, test.encode(), 0o644)]
    await put(context.session, [*defaults, *files])
    result = await run_isolated(context, _PROGRAM, *_ARGUMENTS, env=_ENV)
    if isinstance(result, Failure):
        return Verification(result)
    report = await read_log(context.session, _REPORT)
    return Verification(judge(result, report), result.stdout.text())


def judge(result: ExecResult, report: bytes | None) -> Scored | Failure:
    """The verdict from pytest's exit code and its own report; both must agree."""
    if result.exit_code in _NO_VERDICT:
        reason, message = _NO_VERDICT[result.exit_code]
        return Failure(reason, f"{message} (exit code {result.exit_code})")
    if result.exit_code not in (0, 1) or report is None:
        return Failure(
            NoVerdictReason.VERIFIER_ERROR,
            f"pytest ended with exit code {result.exit_code} and left "
            f"{'a' if report is not None else 'no'} report",
        )
    try:
        counts = _counts(report)
    except (ElementTree.ParseError, ValueError) as error:
        return Failure(NoVerdictReason.VERIFIER_ERROR, f"pytest's report cannot be read: {error}")
    if counts["passed"] + counts["failed"] == 0:
        return Failure(NoVerdictReason.NO_TESTS_COLLECTED, "every test was skipped")
    passed = counts["failed"] == 0
    if passed != (result.exit_code == 0):
        return Failure(
            NoVerdictReason.VERIFIER_ERROR,
            f"pytest's exit code {result.exit_code} and its report {counts} disagree",
        )
    return Scored(
        verdict=Verdict.PASSED if passed else Verdict.FAILED,
        reward=1.0 if passed else 0.0,
        reason="TestsPassed" if passed else "TestsFailed",
        message=f"{counts['passed']:.0f} passed, {counts['failed']:.0f} failed",
        components=counts,
    )


def _counts(report: bytes) -> dict[str, float]:
    suites = list(ElementTree.fromstring(report).iter("testsuite"))
    total, failures, errors, skipped = (
        sum(int(suite.get(name, "0")) for suite in suites)
        for name in ("tests", "failures", "errors", "skipped")
    )
    failed = failures + errors
    return {
        "passed": float(total - failed - skipped),
        "failed": float(failed),
        "skipped": float(skipped),
    }
