"""Prometheus metrics of the operator; every label has a closed set of values."""

import re
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from episode_operator.api.reasons import Phase
from episode_operator.api.result import DistillationStatus, EpisodeResultSpec
from episode_operator.controller.queue import Cause

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
EVENT_LOOP_LAG = Histogram(
    "episode_operator_event_loop_lag_seconds",
    "How late the event loop woke a task that sleeps a quarter of a second.",
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10),
)
_API_WRITES = Counter(
    "episode_operator_api_writes",
    "Requests to the API server that write, also those that were sent again.",
    ["resource", "verb", "outcome"],
)
_VERBS = {"POST": "create", "PATCH": "apply", "PUT": "replace", "DELETE": "delete"}
_OUTCOMES = {
    HTTPStatus.NOT_FOUND: "Absent",
    HTTPStatus.CONFLICT: "Conflict",
    HTTPStatus.TOO_MANY_REQUESTS: "Throttled",
}
_RESOURCE = re.compile(r"/(?:api|apis/[^/]+)/[^/]+(?:/namespaces/[^/]+)?/([a-z]+)")


class EpisodesCollector(Collector):
    """Counts the Episodes that have a task when it is asked to, which is in another thread."""

    def __init__(self, places: Callable[[], Iterable[tuple[Phase, Cause | None]]]) -> None:
        """`places`: phase of each Episode, and what it waits for."""
        self._places = places

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The two gauges; each label's value is there, if only with 0."""
        places = list(self._places())
        phases, causes = Counts(phase for phase, _ in places), Counts(cause for _, cause in places)
        episodes = GaugeMetricFamily(
            "episode_operator_episodes", "Episodes with a task, by phase.", labels=["phase"]
        )
        for phase in Phase:
            episodes.add_metric([phase], phases[phase])
        yield episodes
        waiting = GaugeMetricFamily(
            "episode_operator_episodes_waiting",
            "Episodes in phase Starting, by what they wait for.",
            labels=["cause"],
        )
        for cause in Cause:
            waiting.add_metric([cause], causes[cause])
        yield waiting


def api_write(method: str, path: str, status: int) -> None:
    """Count a request that writes; `status` is the HTTP status, 0 where there was no answer."""
    found = _RESOURCE.match(path)
    resource = "other" if found is None else found[1]
    _API_WRITES.labels(resource, _VERBS[method], _outcome(status)).inc()


def _outcome(status: int) -> str:
    """What became of a write, in one of six words."""
    if status in _OUTCOMES:
        return _OUTCOMES[HTTPStatus(status)]
    if status == 0 or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "Failed"
    return "Refused" if status >= HTTPStatus.BAD_REQUEST else "Written"


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
