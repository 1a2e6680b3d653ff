"""Prometheus metrics of the operator; every label has a closed set of values."""

from prometheus_client import Counter, Gauge, Histogram

from episode_operator.api.result import DistillationStatus, EpisodeResultSpec

EPISODES_FINISHED = Counter(
    "episode_operator_episodes_finished", "Episodes finished.", ["verdict", "reason"]
)
ATTEMPTS_FAILED = Counter(
    "episode_operator_attempts_failed", "Attempts that failed and were retried.", ["reason"]
)
EPISODES_LIVE = Gauge(
    "episode_operator_episodes_live",
    "Episodes with work left: not finished, or waiting for their time to live.",
)
REPLICAS = Gauge(
    "episode_operator_replicas", "Replicas that this one shares the Episodes with, and itself."
)
INTERNAL_ERRORS = Counter(
    "episode_operator_internal_errors", "Errors of the operator itself; each is in the log."
)
MALFORMED_CALLS = Counter(
    "episode_operator_malformed_calls",
    "Tool calls of models that could not be read, or were cut off.",
    ["kind"],
)
LEAKED = Counter(
    "episode_operator_leaked_objects",
    "Objects that outlived their Episode and were deleted by the sweeper.",
    ["resource"],
)
DISTILLATIONS = Counter("episode_operator_distillations", "Distillations that ended.", ["state"])
DISTILLED_TURNS = Counter(
    "episode_operator_distilled_turns", "Turns of distillations, by outcome.", ["outcome"]
)
TEACHER_TOKENS = Counter("episode_operator_teacher_tokens", "Tokens sent to teachers to be scored.")
PHASE_SECONDS = Histogram(
    "episode_operator_phase_seconds",
    "Time an Episode spent in a phase of its last attempt.",
    ["phase"],
    buckets=(0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000),
)


def finished(result: EpisodeResultSpec) -> None:
    """Count a finished Episode, its malformed calls and where its time went."""
    EPISODES_FINISHED.labels(result.verdict, result.reason).inc()
    for kind, count in result.counts.malformed_calls_by_kind.items():
        MALFORMED_CALLS.labels(kind).inc(count)
    timings = result.timings
    PHASE_SECONDS.labels("sandbox_start").observe(timings.sandbox_start_seconds)
    PHASE_SECONDS.labels("setup").observe(timings.setup_seconds)
    PHASE_SECONDS.labels("agent").observe(timings.agent_seconds)
    PHASE_SECONDS.labels("verifier").observe(timings.verifier_seconds)


def distilled(told: DistillationStatus) -> None:
    """Count a distillation that ended."""
    DISTILLATIONS.labels(told.state).inc()
    for outcome, count in told.outcomes.items():
        DISTILLED_TURNS.labels(outcome).inc(count)
    TEACHER_TOKENS.inc(told.teacher_tokens)
    PHASE_SECONDS.labels("distillation").observe(told.seconds)
