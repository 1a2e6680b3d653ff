"""Prometheus metrics of the trainer bridge; every label has a closed set of values.

A gauge of something that is not known is NaN: Prometheus would take 0 for a value.
"""

from collections.abc import Mapping
from enum import StrEnum
from math import inf, nan

from prometheus_client import Counter, Gauge, Histogram

from episode_operator.api.reasons import Verdict
from episode_operator.api.result import EpisodeResultSpec
from trainer_bridge.sinks.base import Demand
from trainer_bridge.statistics.measures import staleness
from trainer_bridge.training import TrainingGroup


class GroupOutcome(StrEnum):
    """What became of a group; `Unknown` is followed by one of the others once it is resolved."""

    DELIVERED = "Delivered"
    DROPPED = "Dropped"
    UNKNOWN = "Unknown"


class ChartError(StrEnum):
    """Why values did not get to the charts."""

    FAILED = "Failed"
    QUEUE_FULL = "QueueFull"


GROUPS = Counter(
    "trainer_bridge_groups",
    "Groups by what became of them; reason is empty unless they were dropped.",
    ["outcome", "reason"],
)
EPISODES = Counter(
    "trainer_bridge_episodes", "Episodes that ended, reruns included.", ["verdict", "reason"]
)
RERUNS = Counter(
    "trainer_bridge_reruns",
    "Episodes run again for one without a verdict, by the reason of that one.",
    ["reason"],
)
GROUPS_IN_FLIGHT = Gauge(
    "trainer_bridge_groups_in_flight", "Groups begun, and neither delivered nor dropped yet."
)
EPISODES_IN_FLIGHT = Gauge(
    "trainer_bridge_episodes_in_flight", "Episodes created, and not ended yet."
)
TRAINER_STEP = Gauge("trainer_bridge_trainer_step", "Step of the trainer; NaN if not known.")
TRAINER_ROOM = Gauge(
    "trainer_bridge_trainer_room_groups",
    "Groups the trainer wants on their way to it at once; +Inf for no limit, NaN if not known.",
)
SEND_SECONDS = Histogram(
    "trainer_bridge_send_seconds",
    "Time one send of a group took, also where it failed.",
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300),
)
BYTES_SENT = Counter(
    "trainer_bridge_bytes_sent", "Bytes of groups sent to the trainer, as they went over the wire."
)
WEIGHT_STALENESS = Histogram(
    "trainer_bridge_weight_staleness_steps",
    "Steps the trainer took between the start of a group and its delivery.",
    buckets=(0, 1, 2, 3, 5, 8, 13, 21, 34, 55),
)
EVALUATION = Gauge(
    "trainer_bridge_evaluation",
    "Values of the last evaluation as a whole, by their name without eval/.",
    ["value"],
)
EVALUATIONS = Counter("trainer_bridge_evaluations", "Evaluations that ended.")
INTERNAL_ERRORS = Counter(
    "trainer_bridge_internal_errors", "Errors of the bridge itself; each is in the log."
)
CHART_ERRORS = Counter(
    "trainer_bridge_chart_errors",
    "Times that values did not get to the charts; each is in the log.",
    ["cause"],
)

TRAINER_STEP.set(nan)
TRAINER_ROOM.set(nan)


def episode_ended(result: EpisodeResultSpec) -> None:
    """Count an Episode that ended, with or without a verdict."""
    EPISODES.labels(result.verdict, result.reason).inc()


def no_verdict(reason: str) -> None:
    """Count an Episode that ended without a verdict, whether or not it left a result."""
    EPISODES.labels(Verdict.NO_VERDICT, reason).inc()


def run_again(reason: str) -> None:
    """Count an Episode that ended without a verdict, and is run again."""
    no_verdict(reason)
    RERUNS.labels(reason).inc()


def demanded(demand: Demand) -> None:
    """Show what the trainer wants."""
    TRAINER_STEP.set(nan if demand.step is None else demand.step)
    TRAINER_ROOM.set(inf if demand.groups is None else demand.groups)


def delivered(group: TrainingGroup, *, step: int | None) -> None:
    """Count a group that the trainer has, at the trainer's step; None where it counts none."""
    GROUPS.labels(GroupOutcome.DELIVERED, "").inc()
    if (age := staleness(group, step)) is not None:
        WEIGHT_STALENESS.observe(age)


def dropped(reason: str) -> None:
    """Count a group that the trainer will not get; the reason is of a sink's closed list."""
    GROUPS.labels(GroupOutcome.DROPPED, reason).inc()


def unknown() -> None:
    """Count a group that may or may not have arrived."""
    GROUPS.labels(GroupOutcome.UNKNOWN, "").inc()


def evaluated(values: Mapping[str, float]) -> None:
    """Show the values of an evaluation; those by family, and older ones, are left out."""
    EVALUATIONS.inc()
    EVALUATION.clear()
    for name, value in values.items():
        prefix, *rest = name.split("/")
        if prefix == "eval" and len(rest) == 1:
            EVALUATION.labels(rest[0]).set(value)
