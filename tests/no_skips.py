"""A pytest plugin: a run in which a test was skipped, or none ran, has failed."""

import pytest

_SKIPPED: list[str] = []


@pytest.hookimpl
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember skipped tests."""
    if report.skipped:
        _SKIPPED.append(report.nodeid)


@pytest.hookimpl
def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Remember modules that skipped themselves."""
    if report.skipped:
        _SKIPPED.append(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run."""
    if _SKIPPED:
        print(f"\nskipped, which is a failure: {', '.join(_SKIPPED)}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
