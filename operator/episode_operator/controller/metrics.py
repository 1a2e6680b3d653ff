"""Prometheus metrics of the operator; every label has a closed set of values."""

from prometheus_client import Counter, Gauge, Histogram

EPISODES_FINISHED = Counter(
    "episode_operator_episodes_finished", "Episodes finished.", ["verdict", "reason"]
)
ATTEMPTS_FAILED = Counter(
    "episode_operator_attempts_failed", "Attempts that failed and were retried.", ["reason"]
)
EPISODES_LIVE = Gauge("episode_operator_episodes_live", "Episodes that are not finished.")
INTERNAL_ERRORS = Counter(
    "episode_operator_internal_errors", "Errors of the operator itself; each is in the log."
)
PHASE_SECONDS = Histogram(
    "episode_operator_phase_seconds",
    "Time an Episode spent in a phase.",
    ["phase"],
    buckets=(0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000),
)
