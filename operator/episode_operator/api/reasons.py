"""The closed lists of condition types and reasons; docs/verdicts.md explains them."""

from enum import StrEnum


class ConditionType(StrEnum):
    """Condition types of an Episode (metav1.Condition)."""

    SANDBOX_READY = "SandboxReady"
    AGENT_COMPLETED = "AgentCompleted"
    VERIFIED = "Verified"
    FAILED = "Failed"
    DISTILLED = "Distilled"
    FINISHED = "Finished"


class Phase(StrEnum):
    """One word for `kubectl get`, derived from the conditions."""

    STARTING = "Starting"
    RUNNING = "Running"
    VERIFYING = "Verifying"
    DISTILLING = "Distilling"
    FINISHED = "Finished"


class Verdict(StrEnum):
    """What the verifier said; NoVerdict is never a reward."""

    PASSED = "Passed"
    FAILED = "Failed"
    NO_VERDICT = "NoVerdict"


class AgentEnd(StrEnum):
    """Why the agent stopped; each of these is graded."""

    NATURAL_FINISH = "NaturalFinish"
    MAX_TURNS = "MaxTurns"
    CONTEXT_LIMIT = "ContextLimit"
    AGENT_TIMEOUT = "AgentTimeout"
    ORACLE_COMPLETED = "OracleCompleted"
    SCRIPT_COMPLETED = "ScriptCompleted"


class MalformedCallKind(StrEnum):
    """Why a piece of a turn that was meant as a tool call was not run."""

    INVALID_JSON = "InvalidJSON"
    NOT_AN_OBJECT = "NotAnObject"
    MISSING_NAME = "MissingName"
    BAD_ARGUMENTS = "BadArguments"
    TRAILING_TEXT = "TrailingText"
    WRONG_FORM = "WrongForm"
    NOT_READ_BY_SERVER = "NotReadByServer"
    TRUNCATED = "Truncated"


class NoVerdictReason(StrEnum):
    """Why there is no verdict."""

    # The sandbox or the cluster failed; retried on a fresh pod.
    IMAGE_PULL_FAILED = "ImagePullFailed"
    UNSCHEDULABLE = "Unschedulable"
    START_DEADLINE_EXCEEDED = "StartDeadlineExceeded"
    CONTAINER_FAILED = "ContainerFailed"
    SIDECAR_FAILED = "SidecarFailed"
    OOM_KILLED = "OOMKilled"
    EVICTED = "Evicted"
    PREEMPTED = "Preempted"
    NODE_LOST = "NodeLost"
    POD_DEADLINE_EXCEEDED = "PodDeadlineExceeded"
    POD_LOST = "PodLost"
    SESSION_LOST = "SessionLost"
    SANDBOX_REPLACED = "SandboxReplaced"
    SANDBOX_ERROR = "SandboxError"
    NETWORK_NOT_ENFORCED = "NetworkNotEnforced"
    # The model server failed; retried on a fresh pod.
    MODEL_UNAVAILABLE = "ModelUnavailable"
    MODEL_OVERLOADED = "ModelOverloaded"
    MODEL_TIMEOUT = "ModelTimeout"
    MODEL_BAD_RESPONSE = "ModelBadResponse"
    MODEL_CHANGED = "ModelChanged"
    # The operator itself failed; retried on a fresh pod.
    INTERNAL_ERROR = "InternalError"
    # The input or the configuration is wrong; a retry would fail alike.
    MODEL_BAD_REQUEST = "ModelBadRequest"
    MODEL_UNAUTHORIZED = "ModelUnauthorized"
    MODEL_NOT_FOUND = "ModelNotFound"
    SCALE_OUT_DISABLED = "ScaleOutDisabled"
    RAW_LOGPROBS = "RawLogprobs"
    WEIGHTS_UNLABELED = "WeightsUnlabeled"
    RENDER_MISMATCH = "RenderMismatch"
    TEACHER_MISMATCH = "TeacherMismatch"
    CONTEXT_LENGTH_EXCEEDED = "ContextLengthExceeded"
    INVALID_TASK = "InvalidTask"
    SETUP_FAILED = "SetupFailed"
    JOURNAL_FULL = "JournalFull"
    RESULT_STORE_FULL = "ResultStoreFull"
    # The verifier ran and said nothing that counts.
    VERIFIER_TIMEOUT = "VerifierTimeout"
    VERIFIER_ERROR = "VerifierError"
    REWARD_MISSING = "RewardMissing"
    REWARD_INVALID = "RewardInvalid"
    NO_TESTS_COLLECTED = "NoTestsCollected"
    PYTEST_MISSING = "PytestMissing"
    PYTHON_MISSING = "PythonMissing"
    # The Episode as a whole.
    STALE = "Stale"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
