"""The decision table, row by row, as far as nothing but functions is needed.

tests/cluster/test_decisions.py and test_faults.py force the rows on a real cluster.
"""

from collections import Counter
from typing import Any

import pytest

from episode_operator.api.decisions import RETRIED, TABLE, Contract, Decision, Happening, decide
from episode_operator.api.reasons import NoVerdictReason, Verdict
from episode_operator.lifecycle.outcome import Failure, Scored, decided
from episode_operator.lifecycle.pods import view
from episode_operator.model import ModelError
from episode_operator.sandbox.errors import RequestError, SandboxError
from episode_operator.verifier import pytest as pytest_contract
from episode_operator.verifier import test_script as script_contract
from tests.unit.builders import container, pod

H, N = Happening, NoVerdictReason
CASES = [(row, contract) for row in TABLE for contract in Contract if contract in row.contracts]


def case(value: object) -> str:
    return str(value.happening or value.reason) if isinstance(value, Decision) else str(value)


def report(tests: int, failures: int = 0, skipped: int = 0) -> bytes:
    return (
        f'<testsuites><testsuite tests="{tests}" failures="{failures}" errors="0" '
        f'skipped="{skipped}"/></testsuites>'
    ).encode()


PYTEST = {
    H.PYTEST_ALL_PASSED: (0, report(2, skipped=1)),
    H.PYTEST_SOME_FAILED: (1, report(2, failures=1)),
    H.PYTEST_INTERRUPTED: (2, None),
    H.PYTEST_INTERNAL_ERROR: (3, None),
    H.PYTEST_USAGE_ERROR: (4, None),
    H.PYTEST_NONE_COLLECTED: (5, report(0)),
    H.PYTEST_MISSING: (90, None),
    H.PYTEST_ALL_SKIPPED: (0, report(1, skipped=1)),
    H.PYTEST_OTHER_END: (137, report(1)),
    H.PYTEST_REPORT_MISSING: (0, None),
    H.PYTEST_REPORT_UNREADABLE: (0, b"<testsuites"),
    H.PYTEST_REPORT_DISAGREES: (0, report(2, failures=1)),
}
SCRIPT: dict[Happening, tuple[bytes | None, bytes | None]] = {
    H.REWARD_REACHED: (b'{"reward": 1, "style": 0.5}', b"0"),
    H.REWARD_BELOW: (None, b"0.99\n"),
    H.REWARD_MISSING: (None, None),
    H.REWARD_INVALID: (b'{"reward": NaN}', b"1"),
}


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason}}


def disrupted(reason: str, message: str = "") -> dict[str, Any]:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    return {"phase": "Failed", "conditions": [condition]}


SCHEDULED = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
PODS: dict[str, dict[str, Any]] = {
    N.IMAGE_PULL_FAILED: {
        "containerStatuses": [
            container({"waiting": {"reason": "ImagePullBackOff", "message": "x: not found"}})
        ]
    },
    N.CONTAINER_FAILED: {"containerStatuses": [container(ended(1))]},
    N.SIDECAR_FAILED: {"initContainerStatuses": [container(ended(0), "sidecar-db")]},
    N.OOM_KILLED: {"containerStatuses": [container(ended(137, "OOMKilled"))]},
    N.EVICTED: disrupted("EvictionByEvictionAPI"),
    N.PREEMPTED: disrupted("PreemptionByScheduler"),
    N.NODE_LOST: {
        "phase": "Failed",
        "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"},
            {"type": "ContainersReady", "status": "True"},
            {"type": "Ready", "status": "False"},
        ],
    },
    N.POD_DEADLINE_EXCEEDED: {"phase": "Failed", "reason": "DeadlineExceeded"},
    N.POD_LOST: {"phase": "Failed"},
}
WAITING: dict[str, dict[str, Any]] = {
    N.UNSCHEDULABLE: {"conditions": [SCHEDULED]},
    N.START_DEADLINE_EXCEEDED: {"phase": "Pending"},
}


def errors(kind: type[Exception]) -> set[str]:
    """The reasons of an error class and all below it."""
    return {getattr(kind, "reason", "")}.union(*(errors(below) for below in kind.__subclasses__()))


def end_of(row: Decision, contract: Contract) -> Scored | Failure:
    """What the code makes of what happened."""
    happening = row.happening
    if happening is None:
        return end_before(row.reason)
    if happening in PYTEST:
        return pytest_contract.judge(*PYTEST[happening])
    if happening in SCRIPT:
        return script_contract.judge(*SCRIPT[happening], exit_code=0)
    reward = None if row.verdict is Verdict.NO_VERDICT else 0.5
    return decided(happening, contract, "why", reward=reward)


def end_before(reason: str) -> Failure:
    """The end of an attempt that came to no verification."""
    if reason in PODS:
        failure = view(pod(**PODS[reason])).failure
        assert failure is not None
        return failure
    if reason in WAITING:
        return view(pod(**WAITING[reason])).waiting
    return Failure(NoVerdictReason(reason), "why")


@pytest.mark.parametrize(("row", "contract"), CASES, ids=case)
def test_each_row_decides(row: Decision, contract: Contract) -> None:
    end = end_of(row, contract)
    verdict = Verdict.NO_VERDICT if isinstance(end, Failure) else end.verdict
    retry = isinstance(end, Failure) and end.retryable
    assert (verdict, str(end.reason), retry) == (row.verdict, row.reason, row.retry)


@pytest.mark.parametrize("happening", Happening)
def test_each_happening_has_one_decision_under_a_contract(happening: Happening) -> None:
    found = Counter(contract for row, contract in CASES if row.happening is happening)
    assert set(found.values()) == {1}


def test_what_ends_an_attempt_before_its_verification_has_one_row() -> None:
    before = Counter(row.reason for row in TABLE if row.happening is None)
    assert set(before.values()) == {1}


@pytest.mark.parametrize("reason", NoVerdictReason)
def test_a_reason_is_always_retried_or_never(reason: NoVerdictReason) -> None:
    assert {row.retry for row in TABLE if row.reason == reason} == {reason in RETRIED}


def test_infrastructure_is_never_a_reward_and_a_verdict_is_never_retried() -> None:
    assert {row.verdict for row in TABLE if row.retry} == {Verdict.NO_VERDICT}


def test_every_row_without_verdict_says_what_to_do() -> None:
    assert [r.happening for r in TABLE if r.verdict is Verdict.NO_VERDICT and not r.advice] == []


def test_what_cannot_happen_under_a_contract_has_no_decision() -> None:
    with pytest.raises(LookupError, match="RewardMissing has no decision under pytest"):
        decide(Happening.REWARD_MISSING, Contract.PYTEST)


def test_a_test_that_pytest_exit_ended_is_no_pass() -> None:
    """So does pytest leave a test in its report that `pytest.exit("", returncode=0)` ended."""
    left = b'<testsuite tests="1"><testcase name="a" time="0.1"/><testcase time="0.0"/></testsuite>'
    end = pytest_contract.judge(0, left)
    assert end.reason == "VerifierError"


def test_a_verdict_without_a_reward_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a reward"):
        decided(Happening.PYTEST_ALL_PASSED, Contract.PYTEST, "")


def test_errors_of_the_model_and_the_sandbox_have_a_reason_of_the_table() -> None:
    """All others end as SandboxError: what concerns one request only, and a broken protocol."""
    known = {*map(str, NoVerdictReason), "", ModelError.reason, SandboxError.reason}
    whole = errors(ModelError) | (errors(SandboxError) - errors(RequestError))
    assert whole - known == {"ProtocolError", "SessionClosed", "SessionSuperseded"}
