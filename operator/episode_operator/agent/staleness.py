"""The limit on the age of an Episode's weights, kept across restarts of the operator.

Age counts from the first token, as trainers count it: a row is as off-policy as its oldest part.
"""

import time
from typing import Any

from episode_operator.api.agent import Staleness
from episode_operator.model import SampledTurn, Stale, VllmClient, WeightsUnlabeled
from episode_operator.model.versions import are_numbers

Record = dict[str, Any]


class StalenessLimit:
    """How many updates and seconds ago the first token was sampled, against what is allowed."""

    def __init__(self, limit: Staleness, client: VllmClient) -> None:
        self._limit = limit
        self._client = client
        self._labelled = False
        self._started: float | None = None
        self._first: str | None = None
        self._newest: str | None = None
        self._updates = 0

    async def check(self) -> None:
        """Raise Stale when the weights that the server has now are too new for this Episode.

        Raises WeightsUnlabeled when versions are limited and the server does not tell them.
        """
        label = await self._client.weight_version()
        if label is None and self._limit.versions is not None:
            raise WeightsUnlabeled(
                f"model.staleness.versions is set, and {self._client.endpoint} does not tell the "
                "version of its weights: start vLLM with VLLM_SERVER_DEV_MODE=1 in its "
                "environment, or set only model.staleness.seconds"
            )
        self._labelled = label is not None
        if self._started is not None:
            self._see(label)
            self._judge(time.time() - self._started)

    def sampled(self, turn: SampledTurn, *, started: float) -> None:
        """A turn was sampled that began at `started`, in seconds since the epoch. Raises Stale."""
        if self._started is None:
            self._started = started
            if self._labelled and turn.versions:
                self._first = self._newest = turn.versions[0].version
        for span in turn.versions:
            self._see(span.version)
        self._judge(time.time() - self._started)

    def record(self) -> Record:
        """What `replay` takes, as JSON."""
        return {
            "started": self._started,
            "first": self._first,
            "newest": self._newest,
            "updates": self._updates,
        }

    def replay(self, record: Record) -> None:
        """Go on from what `record` gave."""
        self._started = record["started"]
        self._first, self._newest = record["first"], record["newest"]
        self._updates = record["updates"]

    def _see(self, label: str | None) -> None:
        if label is None or self._first is None or self._newest is None:
            return
        versions = self._client.versions
        if label == self._first or are_numbers(label, self._first):
            self._updates = versions.newer_by(label, self._first)
        else:
            self._updates += versions.newer_by(label, self._newest)
        self._newest = label

    def _judge(self, age: float) -> None:
        versions, seconds = self._limit.versions, self._limit.seconds
        if versions is not None and self._updates > versions:
            raise Stale(
                f"the first token was sampled by weights {self._first!r}, {self._updates} updates "
                f"before {self._newest!r}; model.staleness.versions allows {versions}"
            )
        changed = self._first is None or self._first != self._newest
        if seconds is not None and changed and age > seconds:
            raise Stale(
                f"the first token was sampled {age:.0f} s ago, and the weights are not those of "
                f"then ({self._first!r}, now {self._newest!r}); model.staleness.seconds allows "
                f"{seconds}"
            )
