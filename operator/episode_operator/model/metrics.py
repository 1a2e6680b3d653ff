"""Prometheus metrics of requests to model servers; every label has a closed set of values."""

from enum import StrEnum

from prometheus_client import Counter, Histogram


class Operation(StrEnum):
    """What a request is for."""

    SAMPLE = "sample"
    """A part of a policy's turn."""
    SCORE = "score"
    """A teacher's values of given tokens."""
    JUDGE = "judge"
    RENDER = "render"
    DERENDER = "derender"
    TOKENIZE = "tokenize"
    DETOKENIZE = "detokenize"
    STATE = "state"
    """What a server is and does: models, version, health, weights, whether it is paused."""


REQUEST_SECONDS = Histogram(
    "episode_operator_model_request_seconds",
    "Time until the whole answer to one request to a model server was there.",
    ["operation"],
    buckets=(0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000),
)
REQUEST_ERRORS = Counter(
    "episode_operator_model_request_errors",
    "Requests to model servers that failed, also those that were sent again.",
    ["operation", "reason"],
)
