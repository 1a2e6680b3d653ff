"""Prometheus metrics of sessions; every label has a closed set of values."""

from prometheus_client import Histogram

REQUEST_SECONDS = Histogram(
    "episode_operator_runner_request_seconds",
    "Time until the runner's answer to one request was there, lost links and commands included.",
    ["operation"],
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000),
)
