"""The decision table on a real cluster: each row of the verification is forced under each contract.

All other reasons are forced by test_reasons.py and by the tests that ELSEWHERE names.
"""

import importlib
import os
from typing import Any

import pytest

from episode_operator.api.decisions import TABLE, Contract, Happening, decide
from episode_operator.api.reasons import NoVerdictReason
from tests.cluster import test_reasons
from tests.cluster.episodes import Ended, Episodes, scripted, terminal

H, N, C = Happening, NoVerdictReason, Contract
IMAGE, BUSYBOX = os.environ.get("TASK_IMAGE", ""), os.environ.get("BUSYBOX_IMAGE", "")

PASS = "def test_it():\n    pass\n"
REPORT = "/logs/verifier/junit.xml"
NO_PYTEST = (
    "rm -r $(python3 -c 'import os, pytest, _pytest; "
    "print(*(os.path.dirname(m.__file__) for m in (pytest, _pytest)))')"
)


def at_exit(report: str) -> str:
    """A test that passes, and writes another report over pytest's own."""
    return (
        f"import atexit\natexit.register(lambda: open({REPORT!r}, 'w').write({report!r}))\n{PASS}"
    )


def on(
    contract: Contract,
    text: str,
    *calls: dict[str, Any],
    image: str = "",
    more: dict[str, Any] | None = None,
    **verifier: Any,
) -> dict[str, Any]:
    """A scripted Episode; `more` goes into the contract, `verifier` beside it."""
    field = {C.PYTEST: "test", C.TEST_SCRIPT: "script", C.TEST_CODE: "code"}[contract]
    scores = {str(contract): {field: text, **(more or {})}, "timeoutSeconds": 60, **verifier}
    return scripted(image or IMAGE, *calls, verifier=scores)


def each(text: dict[Contract, str], **verifier: Any) -> dict[Contract, dict[str, Any]]:
    return {contract: on(contract, text[contract], **verifier) for contract in text}


TRIVIAL = {C.PYTEST: PASS, C.TEST_SCRIPT: "true", C.TEST_CODE: "pass"}
HUGE = terminal("truncate -s 5G /workspace/huge")


def under(path: str) -> dict[str, Any]:
    return {"files": [{"path": path, "content": "x"}]}


CASES: dict[Happening, dict[Contract, dict[str, Any]]] = {
    H.NOT_CARRIED: {
        contract: on(
            contract,
            text,
            HUGE,
            isolation="SeparateContainer",
        )
        for contract, text in TRIVIAL.items()
    },
    H.TESTS_NOT_WRITTEN: {
        C.PYTEST: on(C.PYTEST, PASS, more=under("/tests/test_final_state.py/inside")),
        C.TEST_SCRIPT: on(C.TEST_SCRIPT, "true", more=under("/tests/test.sh/inside")),
    },
    H.TESTS_NOT_STARTED: each(TRIVIAL, user="nobody-of-that-name"),
    H.TESTS_TIMED_OUT: {
        C.TEST_CODE: on(C.TEST_CODE, "import time; time.sleep(60)", timeoutSeconds=2)
    },
    H.LOG_UNREADABLE: {
        C.PYTEST: on(
            C.PYTEST,
            "import atexit, os\n"
            f"def change():\n    os.remove({REPORT!r})\n    os.mkdir({REPORT!r})\n"
            f"atexit.register(change)\n{PASS}",
        ),
        C.TEST_SCRIPT: on(C.TEST_SCRIPT, "mkdir /logs/verifier/reward.txt"),
    },
    H.PYTHON_MISSING: {
        C.TEST_CODE: on(C.TEST_CODE, "pass", image=BUSYBOX),
    },
    H.PYTEST_MISSING: {C.PYTEST: on(C.PYTEST, PASS, terminal(NO_PYTEST))},
    H.PYTEST_INTERNAL_ERROR: {
        C.PYTEST: on(
            C.PYTEST,
            PASS,
            more={
                "files": [
                    {
                        "path": "/tests/conftest.py",
                        "content": "def pytest_collection_modifyitems():\n    raise OSError\n",
                    }
                ]
            },
        )
    },
    H.PYTEST_USAGE_ERROR: {
        C.PYTEST: on(
            C.PYTEST,
            PASS,
            more={
                "files": [
                    {"path": "/tests/pytest.ini", "content": "[pytest]\naddopts = --no-such\n"}
                ]
            },
        )
    },
    H.PYTEST_OTHER_END: {
        C.PYTEST: on(C.PYTEST, "import os\ndef test_it():\n    os.kill(os.getpid(), 9)\n")
    },
    H.PYTEST_REPORT_UNREADABLE: {C.PYTEST: on(C.PYTEST, at_exit("<testsuites"))},
    H.PYTEST_REPORT_DISAGREES: {
        C.PYTEST: on(
            C.PYTEST,
            at_exit('<testsuite tests="1" failures="1" errors="0" skipped="0"></testsuite>'),
        )
    },
}
"""What is forced here alone."""

VERIFIED: dict[tuple[Happening, Contract], str] = {
    (H.TESTS_TIMED_OUT, C.PYTEST): "pytest-timeout",
    (H.TESTS_TIMED_OUT, C.TEST_SCRIPT): "script-timeout",
    (H.PYTHON_MISSING, C.PYTEST): "pytest-no-python",
    (H.PYTEST_ALL_PASSED, C.PYTEST): "pytest-passed",
    (H.PYTEST_SOME_FAILED, C.PYTEST): "pytest-failed",
    (H.PYTEST_INTERRUPTED, C.PYTEST): "pytest-syntax-error",
    (H.PYTEST_NONE_COLLECTED, C.PYTEST): "pytest-none-collected",
    (H.PYTEST_ALL_SKIPPED, C.PYTEST): "pytest-all-skipped",
    (H.PYTEST_REPORT_MISSING, C.PYTEST): "pytest-exits-zero-early",
    (H.REWARD_REACHED, C.TEST_SCRIPT): "script-passed",
    (H.REWARD_BELOW, C.TEST_SCRIPT): "script-partial",
    (H.REWARD_MISSING, C.TEST_SCRIPT): "script-missing-program",
    (H.REWARD_INVALID, C.TEST_SCRIPT): "script-nan",
    (H.CODE_PASSED, C.TEST_CODE): "code-passed",
    (H.CODE_ASSERTION_FAILED, C.TEST_CODE): "code-assertion",
    (H.CODE_FAILED, C.TEST_CODE): "code-no-solution",
    (H.CODE_ENDED_EARLY, C.TEST_CODE): "code-exits-zero-early",
}
"""What Episodes of tests/cluster/verifications.py force."""

FAULTS = "tests.cluster.test_faults"
LIFECYCLE = "tests.cluster.test_lifecycle"
PROFILE = "tests.cluster.test_profile"
AGENTS = "tests.cluster.test_agents"
WEIGHTS = "tests.cluster.test_weights_vllm"
DISTILLATION = "tests.cluster.test_distillation"
ELSEWHERE: dict[NoVerdictReason, tuple[str, str]] = {
    N.IMAGE_PULL_FAILED: (FAULTS, "test_image_that_does_not_exist"),
    N.UNSCHEDULABLE: (FAULTS, "test_unschedulable"),
    N.CONTAINER_FAILED: (FAULTS, "test_a_container_that_dies_is_retried_then_given_up"),
    N.SIDECAR_FAILED: (PROFILE, "test_a_sidecar_that_ends_is_never_a_reward"),
    N.OOM_KILLED: (FAULTS, "test_out_of_memory_is_never_graded"),
    N.EVICTED: (FAULTS, "test_evicted_through_the_api"),
    N.PREEMPTED: (FAULTS, "test_preempted"),
    N.NODE_LOST: (FAULTS, "test_a_lost_node"),
    N.POD_DEADLINE_EXCEEDED: (FAULTS, "test_the_pods_own_deadline"),
    N.POD_LOST: (FAULTS, "test_a_deleted_pod_is_retried_on_a_fresh_one"),
    N.INVALID_TASK: (LIFECYCLE, "test_bad_input_is_a_failed_condition"),
    N.SETUP_FAILED: (LIFECYCLE, "test_bad_input_is_a_failed_condition"),
    N.RAW_LOGPROBS: (AGENTS, "test_temperature_needs_processed_logprobs"),
    N.SCALE_OUT_DISABLED: (AGENTS, "test_server_without_scale_out"),
    N.TEACHER_MISMATCH: (
        DISTILLATION,
        "test_a_teacher_with_another_vocabulary_is_refused_before_the_agent_acts",
    ),
    N.STALE: (WEIGHTS, "test_an_episode_with_old_weights_ends"),
    N.WEIGHTS_UNLABELED: (AGENTS, "test_a_limit_on_versions_needs_their_labels"),
    N.MODEL_CHANGED: (AGENTS, "test_a_server_that_was_replaced_in_mid_episode"),
    N.DEADLINE_EXCEEDED: (FAULTS, "test_the_episode_deadline_ends_everything"),
    N.MODEL_NOT_FOUND: (FAULTS, "test_model_server_that_is_not_there"),
}


OWN = [(happening, contract) for happening, cases in CASES.items() for contract in cases]
FORCED = [*OWN, *VERIFIED]

Decided = dict[tuple[Happening, Contract], Ended]


@pytest.fixture(scope="module")
async def ended(shared: Episodes, verified: dict[str, Ended]) -> Decided:
    """All cases; those of this module are run at once."""
    specs = {f"{h}-{c}".lower(): CASES[h][c] for h, c in OWN}
    own = await shared.run_all(specs)
    return {
        **dict(zip(OWN, own.values(), strict=True)),
        **{row: verified[name] for row, name in VERIFIED.items()},
    }


@pytest.mark.parametrize(("happening", "contract"), FORCED, ids=str)
async def test_the_row_decides(ended: Decided, happening: Happening, contract: Contract) -> None:
    row, end = decide(happening, contract), ended[happening, contract]
    verdict, reward, reason = end.verdict
    assert (verdict, reason) == (row.verdict, row.reason), end.result.spec.message
    assert (reward is None) == (row.verdict == "NoVerdict")
    assert end.episode.status.attempts == []
    assert end.result.spec.harness == contract


def test_every_row_of_the_verification_is_forced() -> None:
    rows = {
        (row.happening, contract) for row in TABLE if row.happening for contract in row.contracts
    }
    # Test code is one file in a folder that was just made: only a full disk keeps it out.
    assert rows - set(FORCED) == {(H.TESTS_NOT_WRITTEN, C.TEST_CODE)}


def test_every_other_reason_is_forced() -> None:
    rows = {row.reason for row in TABLE if row.happening is None}
    assert rows == {*ELSEWHERE, *(reason for reason, _ in test_reasons.FORCED.values())}


@pytest.mark.parametrize("reason", ELSEWHERE)
def test_what_forces_a_reason_elsewhere_is_there(reason: NoVerdictReason) -> None:
    module, test = ELSEWHERE[reason]
    assert hasattr(importlib.import_module(module), test)
