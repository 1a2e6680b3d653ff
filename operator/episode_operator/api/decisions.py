"""The decision table: what happened, under which contract, gives which verdict, and is it retried?

It is all there is of this knowledge: the code decides by it, docs/verdicts.md is written from it,
and tests/unit/test_decisions.py and tests/cluster/test_decisions.py go through it row by row.
"""

from dataclasses import dataclass
from enum import StrEnum

from episode_operator.api.reasons import NoVerdictReason, Verdict


class Contract(StrEnum):
    """What turns a sandbox's final state into a reward; the names are the API's."""

    PYTEST = "pytest"
    TEST_SCRIPT = "testScript"
    TEST_CODE = "testCode"


class Happening(StrEnum):
    """What a verification came to. What ends an attempt before is named by its reason alone."""

    NOT_CARRIED = "NotCarried"
    TESTS_NOT_WRITTEN = "TestsNotWritten"
    TESTS_NOT_STARTED = "TestsNotStarted"
    TESTS_TIMED_OUT = "TestsTimedOut"
    LOG_UNREADABLE = "LogUnreadable"
    PYTHON_MISSING = "PythonMissing"
    PYTEST_MISSING = "PytestMissing"
    PYTEST_ALL_PASSED = "PytestAllPassed"
    PYTEST_SOME_FAILED = "PytestSomeFailed"
    PYTEST_INTERRUPTED = "PytestInterrupted"
    PYTEST_INTERNAL_ERROR = "PytestInternalError"
    PYTEST_USAGE_ERROR = "PytestUsageError"
    PYTEST_NONE_COLLECTED = "PytestNoneCollected"
    PYTEST_ALL_SKIPPED = "PytestAllSkipped"
    PYTEST_OTHER_END = "PytestOtherEnd"
    PYTEST_REPORT_MISSING = "PytestReportMissing"
    PYTEST_REPORT_UNREADABLE = "PytestReportUnreadable"
    PYTEST_REPORT_DISAGREES = "PytestReportDisagrees"
    REWARD_REACHED = "RewardReached"
    REWARD_BELOW = "RewardBelow"
    REWARD_MISSING = "RewardMissing"
    REWARD_INVALID = "RewardInvalid"
    CODE_PASSED = "CodePassed"
    CODE_ASSERTION_FAILED = "CodeAssertionFailed"
    CODE_FAILED = "CodeFailed"
    CODE_ENDED_EARLY = "CodeEndedEarly"


TESTS_PASSED = "TestsPassed"
TESTS_FAILED = "TestsFailed"


@dataclass(frozen=True, slots=True)
class Decision:
    """One row.

    Attributes:
        what: what happened, in words.
        reason: one of NoVerdictReason exactly when the verdict is NoVerdict.
        happening: what the verification came to; None where the reason itself says what happened.
    """

    what: str
    contracts: frozenset[Contract]
    verdict: Verdict
    reason: str
    retry: bool = False
    advice: str = ""
    happening: Happening | None = None


_EVERY = frozenset(Contract)
_PYTEST = frozenset({Contract.PYTEST})
_SCRIPT = frozenset({Contract.TEST_SCRIPT})
_CODE = frozenset({Contract.TEST_CODE})
_PYTHON = _PYTEST | _CODE


def _retried(reason: NoVerdictReason, what: str, advice: str) -> Decision:
    """A failure of the cluster, the model server or the operator: a fresh pod may cure it."""
    return Decision(what, _EVERY, Verdict.NO_VERDICT, reason, retry=True, advice=advice)


def _final(reason: NoVerdictReason, what: str, advice: str) -> Decision:
    """A mistake in the input or the configuration: a retry would fail alike."""
    return Decision(what, _EVERY, Verdict.NO_VERDICT, reason, advice=advice)


def _none(
    happening: Happening,
    what: str,
    contracts: frozenset[Contract],
    reason: NoVerdictReason,
    advice: str,
) -> Decision:
    """The verifier ran, or was to run, and said nothing that counts."""
    none = Verdict.NO_VERDICT
    return Decision(what, contracts, none, reason, advice=advice, happening=happening)


def _passed(happening: Happening, what: str, contracts: frozenset[Contract]) -> Decision:
    return Decision(what, contracts, Verdict.PASSED, TESTS_PASSED, happening=happening)


def _failed(happening: Happening, what: str, contracts: frozenset[Contract]) -> Decision:
    return Decision(what, contracts, Verdict.FAILED, TESTS_FAILED, happening=happening)


H = Happening
N = NoVerdictReason

TABLE: tuple[Decision, ...] = (
    _retried(
        N.IMAGE_PULL_FAILED,
        "an image does not exist, or could not be pulled in half of the start deadline, or the "
        "runner's could not while the task's was there",
        "check `task.image`, `sandbox.imagePullSecrets`, the registry",
    ),
    _retried(
        N.UNSCHEDULABLE,
        "no node had room within the start deadline",
        "lower `sandbox.resources`, check nodeSelector and tolerations, add nodes",
    ),
    _retried(
        N.START_DEADLINE_EXCEEDED,
        "the pod was scheduled, but did not run in time",
        "look at the pod's events; raise `sandbox.startDeadlineSeconds`",
    ),
    _retried(
        N.CONTAINER_FAILED,
        "a container could not be created, or ended",
        "the message has the kubelet's words; often a `workdir` that cannot be",
    ),
    _retried(
        N.SIDECAR_FAILED,
        "a sidecar ended, or was restarted",
        "the message names it; look at its log and its limits",
    ),
    _retried(
        N.OOM_KILLED,
        "a process of the sandbox was killed for memory, also while tests ran",
        "raise `sandbox.resources.memory`",
    ),
    _retried(
        N.EVICTED,
        "the node evicted the pod, or it was evicted through the API or by a taint",
        "the node lacks disk or memory, or is drained; check `ephemeralStorage`",
    ),
    _retried(
        N.PREEMPTED,
        "the scheduler took the pod's room for one of higher priority",
        "more nodes, or a higher priority for the sandboxes",
    ),
    _retried(
        N.NODE_LOST,
        "the pod's node does not answer any more, or is gone",
        "look at the node",
    ),
    _retried(
        N.POD_DEADLINE_EXCEEDED,
        "the kubelet ended the pod at its own deadline",
        "rare: a step outlasted its limit. Was the operator down for long?",
    ),
    _retried(
        N.POD_LOST,
        "the pod was deleted, or vanished",
        "look for other controllers and people that delete pods",
    ),
    _retried(
        N.SESSION_LOST,
        "the runner could not be reached for `operator.sessionRetrySeconds` (180): how a running "
        "command ended is unknown",
        "API server, kubelet or node unreachable; may the operator exec into pods?",
    ),
    _retried(
        N.SANDBOX_REPLACED,
        "another runner answered than before",
        "the container was restarted by someone",
    ),
    _retried(
        N.SANDBOX_ERROR,
        "anything else in the sandbox: processes that cannot be killed, a runner of another "
        "release",
        "the message says which",
    ),
    _retried(
        N.NETWORK_NOT_ENFORCED,
        "after 30 seconds the pod still reached an address that its policy forbids",
        "install a network that enforces NetworkPolicies, or set "
        "`operator.requireNetworkPolicy=false`",
    ),
    _retried(
        N.MODEL_UNAVAILABLE,
        "no connection, or 5xx, for `operator.modelRetrySeconds` (300); or the server is paused, "
        "or aborts everything, for ten minutes; or any of these when the agent's time ends",
        "check `model.endpoint`, the server's log, and the trainer that paused it",
    ),
    _retried(
        N.MODEL_OVERLOADED,
        "429 or 503 for `operator.modelRetrySeconds` (300)",
        "fewer Episodes at once, more servers",
    ),
    _retried(
        N.MODEL_TIMEOUT,
        "one request took longer than `model.requestTimeoutSeconds`",
        "raise it, or lower `maxTokens`",
    ),
    _retried(
        N.MODEL_BAD_RESPONSE,
        "an answer whose ids, lengths or numbers do not fit together",
        "check the vLLM version, the weights, the dtype and `--logprobs-mode`",
    ),
    _retried(
        N.MODEL_CHANGED,
        "after a turn the server had another model under this name, another context length, or "
        "another logprobs mode where that matters",
        "replace a server when no Episode runs on it, or give the new one another address",
    ),
    _retried(N.INTERNAL_ERROR, "an error of the operator itself", "report it with the log"),
    _final(
        N.MODEL_BAD_REQUEST,
        "the server refused a request, or does not implement it for this model",
        "the message quotes the server; check the sampling parameters and the chat template",
    ),
    _final(
        N.MODEL_UNAUTHORIZED,
        "the server, or a gateway before it, wants a credential or forbids the request",
        "Episodes cannot carry one yet; put the server behind a Service without",
    ),
    _final(
        N.MODEL_NOT_FOUND,
        "the server has no model of this name",
        "set `model.name` to a name in the message",
    ),
    _final(
        N.SCALE_OUT_DISABLED,
        "the token endpoints are missing",
        "vLLM 0.32 or later with `--enable-scale-out`; `model.endpoint` is without `/v1`",
    ),
    _final(
        N.RAW_LOGPROBS,
        "raw logprobs, and a temperature or filter that changes the distribution",
        "start vLLM with `--logprobs-mode processed_logprobs`",
    ),
    _final(
        N.WEIGHTS_UNLABELED,
        "`model.staleness.versions` is set, and the server does not tell its weights' version",
        "start vLLM with the environment variable `VLLM_SERVER_DEV_MODE=1`, or limit `seconds`",
    ),
    _final(
        N.RENDER_MISMATCH,
        "the chat template does not show what is new in a prompt",
        "use another chat template",
    ),
    _final(
        N.TEACHER_MISMATCH,
        "the teacher has another vocabulary than the policy, or lacks what `distillation` asks for",
        "use a teacher of the policy's model family; the message says what differs",
    ),
    _final(
        N.CONTEXT_LENGTH_EXCEEDED,
        "the server refused a prompt that should have fitted",
        "was it restarted with a shorter context? The next Episode knows",
    ),
    _final(
        N.INVALID_TASK,
        "a reference leads nowhere, a user or shell is not there, the solution cannot be started, "
        "or the API server refuses the pod's form",
        "fix the Episode; for Secrets set `operator.secretReferences`",
    ),
    _final(
        N.SETUP_FAILED,
        "a task file could not be written, or the setup script failed or timed out",
        "the message has the path, or the end of the script's output",
    ),
    _final(
        N.JOURNAL_FULL,
        "the turns of the Episode pass what the runner keeps (32 MiB compressed)",
        "lower `agent.maxTurns` or `agent.outputLimitBytes`",
    ),
    _final(
        N.RESULT_STORE_FULL,
        "too many results wait in the runner at once",
        "lower `agent.outputLimitBytes`",
    ),
    _final(
        N.STALE,
        "the weights that sampled the first token are older than `model.staleness` allows",
        "not retried: shorten the Episode, update less often, or raise the limit",
    ),
    _final(
        N.DEADLINE_EXCEEDED,
        "no verdict within `activeDeadlineSeconds`",
        "the message says what was wrong at that time; raise it, or lower the retries",
    ),
    _none(
        H.NOT_CARRIED,
        "what `verifier.carry` names is more than 4 GiB, or has no room in the separate container",
        _EVERY,
        N.VERIFIER_ERROR,
        "the message has the path; carry less",
    ),
    _none(
        H.TESTS_NOT_WRITTEN,
        "a file of the tests could not be written, for example on a full disk",
        _EVERY,
        N.VERIFIER_ERROR,
        "see the message; for tasks that do not run as root see [limits.md](limits.md)",
    ),
    _none(
        H.TESTS_NOT_STARTED,
        "the tests could not be started: no such shell, user, or right",
        _EVERY,
        N.VERIFIER_ERROR,
        "the message says what is missing; set `verifier.image` to one that has it",
    ),
    _none(
        H.TESTS_TIMED_OUT,
        "the tests were killed at `verifier.timeoutSeconds`",
        _EVERY,
        N.VERIFIER_TIMEOUT,
        "raise it, or bound what may hang inside the tests",
    ),
    _none(
        H.LOG_UNREADABLE,
        "the reward file or report is a link, a folder, or cannot be read",
        _PYTEST | _SCRIPT,
        N.VERIFIER_ERROR,
        "see the message; write regular files into `/logs/verifier`",
    ),
    _none(
        H.PYTHON_MISSING,
        "the image has no Python",
        _PYTHON,
        N.PYTHON_MISSING,
        "add it, set `verifier.image`, or use `testScript`",
    ),
    _none(
        H.PYTEST_MISSING,
        "the image's Python has no pytest",
        _PYTEST,
        N.PYTEST_MISSING,
        "install it in the image, or set `verifier.image`",
    ),
    _passed(H.PYTEST_ALL_PASSED, "exit code 0, and the report has no failed test", _PYTEST),
    _failed(H.PYTEST_SOME_FAILED, "exit code 1, and the report has a failed test", _PYTEST),
    _none(
        H.PYTEST_INTERRUPTED,
        "exit code 2: interrupted, or the tests could not be collected",
        _PYTEST,
        N.VERIFIER_ERROR,
        "see `verifierOutput`; import the agent's code inside the test functions",
    ),
    _none(
        H.PYTEST_INTERNAL_ERROR,
        "exit code 3: an error inside pytest",
        _PYTEST,
        N.VERIFIER_ERROR,
        "see `verifierOutput`",
    ),
    _none(
        H.PYTEST_USAGE_ERROR,
        "exit code 4: pytest was called in a wrong way",
        _PYTEST,
        N.VERIFIER_ERROR,
        "see `verifierOutput`; a `pytest.ini` among the files?",
    ),
    _none(
        H.PYTEST_NONE_COLLECTED,
        "exit code 5: no test",
        _PYTEST,
        N.NO_TESTS_COLLECTED,
        "fix the test file",
    ),
    _none(
        H.PYTEST_ALL_SKIPPED,
        "every test was skipped",
        _PYTEST,
        N.NO_TESTS_COLLECTED,
        "fix the test file",
    ),
    _none(
        H.PYTEST_OTHER_END,
        "another exit code, or a signal",
        _PYTEST,
        N.VERIFIER_ERROR,
        "see `verifierOutput`",
    ),
    _none(
        H.PYTEST_REPORT_MISSING,
        "exit code 0 or 1 without a report, as after `os._exit(0)` in imported code",
        _PYTEST,
        N.VERIFIER_ERROR,
        "see `verifierOutput`",
    ),
    _none(
        H.PYTEST_REPORT_UNREADABLE,
        "the report is not what pytest writes",
        _PYTEST,
        N.VERIFIER_ERROR,
        "see `verifierOutput`",
    ),
    _none(
        H.PYTEST_REPORT_DISAGREES,
        "exit code and report contradict each other",
        _PYTEST,
        N.VERIFIER_ERROR,
        "see `verifierOutput`",
    ),
    _passed(H.REWARD_REACHED, "the script wrote a reward of at least 1", _SCRIPT),
    _failed(H.REWARD_BELOW, "the script wrote a reward below 1", _SCRIPT),
    _none(
        H.REWARD_MISSING,
        "the script wrote no reward, whatever its exit code",
        _SCRIPT,
        N.REWARD_MISSING,
        "see `verifierOutput`",
    ),
    _none(
        H.REWARD_INVALID,
        "the script wrote something else than finite numbers",
        _SCRIPT,
        N.REWARD_INVALID,
        "fix the script",
    ),
    _passed(H.CODE_PASSED, "the code ran to its end with exit code 0", _CODE),
    _failed(H.CODE_ASSERTION_FAILED, "an assertion failed", _CODE),
    _failed(H.CODE_FAILED, "it ended with another error", _CODE),
    _failed(H.CODE_ENDED_EARLY, "it ended with exit code 0 before its last line", _CODE),
)

RETRIED = frozenset(row.reason for row in TABLE if row.retry)
"""Reasons that a fresh pod may cure; all others would fail alike and are not retried."""


def decide(happening: Happening, contract: Contract) -> Decision:
    """The row for what a verification under a contract came to.

    Raises:
        LookupError: it cannot happen under that contract.
    """
    for row in TABLE:
        if row.happening is happening and contract in row.contracts:
            return row
    raise LookupError(f"{happening} has no decision under {contract}")
