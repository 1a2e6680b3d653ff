"""Judges what came of each Episode: right, wrong, lost; doubled; leaked."""

import asyncio
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from episode_operator.api.decisions import RETRIED
from episode_operator.api.episode import EpisodeStatus
from episode_operator.api.reasons import Verdict
from episode_operator.api.result import EpisodeResult
from episode_operator.kube.client import (
    CONFIG_MAPS,
    EPISODE_RESULTS,
    EPISODES,
    NETWORK_POLICIES,
    PODS,
    Object,
    Resource,
)
from tests.chaos.faults import World
from tests.chaos.known import RETRY_LIMIT, Known, doubled
from tests.chaos.plan import Planned

GONE_SECONDS = 60.0
_OWNED = (PODS, NETWORK_POLICIES, CONFIG_MAPS)
_OF_THE_CLUSTER = frozenset({"kube-root-ca.crt"})


class End(StrEnum):
    """`GAVE_UP`: no verdict, for a failure of the infrastructure, after all retries."""

    RIGHT = "right"
    GAVE_UP = "gave up"
    WRONG = "wrong"
    LOST = "lost"


@dataclass
class Outcome:
    """What came of a planned Episode; `detail` says what is not as it should be."""

    planned: Planned
    struck: bool = False
    end: End = End.LOST
    retried: bool = False
    doubled: bool = False
    leaked: bool = False
    detail: str = "it did not finish in time"


async def judge(world: World, outcomes: Iterable[Outcome]) -> None:
    """Compare results with the right answers, once everything has ended."""
    items = await world.client.list(EPISODE_RESULTS, world.namespace, labels={})
    results = [EpisodeResult.model_validate(item) for item in items]
    for outcome in outcomes:
        name = outcome.planned.name
        stored = await world.client.get(EPISODES, world.namespace, name)
        status = EpisodeStatus.model_validate((stored or {}).get("status", {}))
        of_it = [result for result in results if result.spec.episode.name == name]
        outcome.retried = bool(status.attempts)
        outcome.doubled = len(of_it) > 1 or any(doubled(r.spec.verifier_output) for r in of_it)
        outcome.end = end_of(outcome.planned.known, status, of_it)
        if outcome.end is not End.LOST:
            outcome.detail = _describe(status, of_it)


def end_of(known: Known, status: EpisodeStatus, results: list[EpisodeResult]) -> End:
    """How an Episode ended, compared with its right answer."""
    if not status.finished or not results:
        return End.LOST
    result = results[0]
    if (status.verdict, status.reward) != (result.spec.verdict, result.spec.reward):
        return End.WRONG
    if status.verdict is Verdict.NO_VERDICT and status.reward is None:
        used_up = len(status.attempts) == RETRY_LIMIT
        return End.GAVE_UP if used_up and status.reason in RETRIED else End.WRONG
    right = status.verdict == known.verdict and math.isclose(
        status.reward if status.reward is not None else math.nan, known.reward, abs_tol=1e-6
    )
    return End.RIGHT if right else End.WRONG


def _describe(status: EpisodeStatus, results: list[EpisodeResult]) -> str:
    attempts = ", ".join(attempt.reason for attempt in status.attempts) or "no retry"
    return (
        f"{status.verdict} {status.reward} {status.reason}: {status.message} ({attempts}; "
        f"{len(results)} results; {results[0].spec.verifier_output[-300:]!r})"
    )


async def clean_up(world: World, outcomes: Sequence[Outcome]) -> None:
    """Delete every Episode and result; what of theirs stays is leaked.

    A finished Episode has no pod even before that.
    """
    for pod in await world.client.list(PODS, world.namespace, labels={}):
        _blame(outcomes, PODS, pod)
    for resource in (EPISODES, EPISODE_RESULTS):
        await world.client.request("DELETE", resource.path(world.namespace))
    deadline = time.monotonic() + GONE_SECONDS
    while (left := await _left(world)) and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
    for resource, item in left:
        _blame(outcomes, resource, item)


async def _left(world: World) -> list[tuple[Resource, Object]]:
    return [
        (resource, item)
        for resource in _OWNED
        for item in await world.client.list(resource, world.namespace, labels={})
        if item["metadata"]["name"] not in _OF_THE_CLUSTER
    ]


def _blame(outcomes: Sequence[Outcome], resource: Resource, item: Object) -> None:
    """The names of an Episode's objects begin with its own."""
    name = str(item["metadata"]["name"])
    outcome = next(one for one in outcomes if name.startswith(one.planned.name))
    outcome.leaked = True
    outcome.detail += f"; left: {resource.plural} {name}"
