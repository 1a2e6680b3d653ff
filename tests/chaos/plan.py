"""Which Episodes are run, and which fault meets each of them: all of it decided by the seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from episode_operator.api.reasons import Phase
from tests.chaos import known
from tests.chaos.faults import TOLERATION, Fault
from tests.chaos.known import Images, Known
from tests.chaos.model import ModelServer

_LATEST_SECONDS = 2.0

T = TypeVar("T")


@dataclass(frozen=True)
class Planned:
    """An Episode, what happens to it, and when: seconds after its phase has begun."""

    name: str
    fault: Fault
    known: Known
    after_seconds: float


def plan(
    count: int, random: Random, faults: Sequence[Fault], images: Images, server: ModelServer
) -> list[Planned]:
    """Every fault and every kind of Episode equally often, in random order and combination."""
    planned = []
    kinds = _deal(known.KINDS, count, random)
    for number, (fault, kind) in enumerate(zip(_deal(faults, count, random), kinds, strict=True)):
        drawn = known.draw(kind, random, images, server)
        if fault.tolerated:
            drawn.spec["sandbox"] = {"tolerations": [TOLERATION]}
        fault.change(drawn.spec)
        seconds = random.uniform(0, _LATEST_SECONDS) if fault.at is Phase.RUNNING else 0.0
        planned.append(Planned(f"chaos-{number:04}", fault, drawn, seconds))
    return planned


def _deal(cards: Sequence[T], count: int, random: Random) -> list[T]:
    dealt: list[T] = []
    while len(dealt) < count:
        dealt += random.sample(cards, len(cards))
    return dealt[:count]
