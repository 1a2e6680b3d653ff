"""What a bridge must remember, in one ConfigMap: which groups are open, and what became of others.

Everything else is in the Episodes and EpisodeResults themselves. It is written before what it
tells of happens, so that a bridge that was killed finds what it may have begun.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from episode_operator.api.labels import RUN
from episode_operator.kube.client import (
    CONFIG_MAPS,
    EPISODE_RESULTS,
    EPISODES,
    KubernetesClient,
)
from trainer_bridge.run.names import labels, state_name

MANAGER = "trainer-bridge"

_KEY = "state"
_RECENT_BYTES = 400_000
"""Less than half of what a ConfigMap holds."""


class StateError(Exception):
    """The stored state cannot be used; the text says what to do."""


class GroupState(BaseModel):
    """A group: open, or delivered not long ago."""

    model_config = ConfigDict(extra="forbid")

    task: str = Field(description="Name of its task.")
    step: int | None = Field(default=None, description="The trainer's step when it was started.")
    members: int = Field(description="Number of its members.")
    tries: dict[int, int] = Field(
        default={}, description="Episodes given up before the current one, of members with any."
    )
    lost: bool = Field(default=False, description="The trainer had it, and has lost it.")

    @property
    def size(self) -> int:
        """About how many bytes it takes in the ConfigMap."""
        return 80 + 4 * len(self.task) + 16 * len(self.tries)


class RunState(BaseModel):
    """The state of a run."""

    model_config = ConfigDict(extra="forbid")

    uid: str = Field(description="Made once per run: in names outside of the cluster.")
    next_group: int = Field(default=0, description="Index of the next group to start.")
    open: dict[int, GroupState] = Field(default={}, description="Open groups by index.")
    recent: dict[int, GroupState] = Field(
        default={}, description="The groups delivered last by index, oldest first."
    )
    delivered: int = Field(default=0, description="Groups that the trainer has.")
    dropped: dict[str, int] = Field(default={}, description="Groups dropped, by reason.")
    unknown: int = Field(default=0, description="Times that a group's arrival was not known.")
    reruns: int = Field(default=0, description="Episodes run again for want of a verdict.")
    no_verdict: dict[str, int] = Field(default={}, description="Those Episodes, by reason.")
    step: int | None = Field(default=None, description="The trainer's step, as last seen.")
    evaluations: int = Field(default=0, description="Evaluations begun while serving.")
    evaluating: int | None = Field(default=None, description="Step of the one under way.")
    evaluated: int | None = Field(default=None, description="Step of the last evaluation.")
    evaluation: dict[str, float] = Field(default={}, description="What the last one gave.")

    def start(self, task: str, *, members: int, step: int | None) -> int:
        """Open the next group; its index."""
        index = self.next_group
        self.open[index] = GroupState(task=task, step=step, members=members, tries={})
        self.next_group += 1
        return index

    def deliver(self, index: int) -> None:
        """The trainer has the group."""
        self.recent[index] = self.open.pop(index)
        while sum(each.size for each in self.recent.values()) > _RECENT_BYTES:
            self.recent.pop(next(iter(self.recent)))
        self.delivered += 1

    def drop(self, index: int, reason: str) -> None:
        """The group is dropped for good."""
        self.open.pop(index)
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def lose(self, indices: Iterable[int]) -> list[int]:
        """Open delivered groups again: the trainer has lost them. Which of them were recent."""
        lost = [index for index in indices if index in self.recent]
        for index in lost:
            self.open[index] = self.recent.pop(index)
            self.open[index].lost = True
        self.delivered -= len(lost)
        self.unknown += len(lost)
        return lost

    def evaluate(self, step: int) -> None:
        """Begin an evaluation at a step."""
        self.evaluations += 1
        self.evaluating = step

    def evaluation_due(self, every: int) -> bool:
        """Whether it is time for one; a trainer that began anew is evaluated anew."""
        if self.step is None or self.evaluating is not None:
            return False
        since = None if self.evaluated is None else self.step - self.evaluated
        return since is None or since < 0 or since >= every

    def rerun(self, index: int, member: int, reason: str) -> None:
        """A member ended without a verdict, and is run again."""
        tries = self.open[index].tries
        tries[member] = tries.get(member, 0) + 1
        self.reruns += 1
        self.no_verdict = dict(Counter(self.no_verdict) + Counter([reason]))

    def reruns_of(self, index: int) -> int:
        """How many members of an open group were run again."""
        return sum(self.open[index].tries.values())


class StateStore:
    """Keeps the state of one run in its ConfigMap."""

    def __init__(self, client: KubernetesClient, *, namespace: str, run: str) -> None:
        self._client = client
        self._namespace = namespace
        self._run = run

    async def load(self) -> RunState | None:
        """The stored state; None for a run that was never started.

        Raises:
            StateError: it is of another version, or damaged.
            ApiError: the API server does not give it.
        """
        name = state_name(self._run)
        stored = await self._client.get(CONFIG_MAPS, self._namespace, name)
        if stored is None:
            return None
        try:
            return RunState.model_validate_json(stored.get("data", {}).get(_KEY, ""))
        except ValidationError as error:
            raise StateError(
                f"ConfigMap {name} in namespace {self._namespace} does not hold the state of a "
                f"run: {error.errors()[0]['msg']}; {self.cure}"
            ) from error

    @property
    def cure(self) -> str:
        """What to do about what another run, or an older bridge, left."""
        kinds = "episodes,episoderesults,configmaps,leases"
        return (
            "choose another name for the run, or delete all of it: "
            f"kubectl delete {kinds} -n {self._namespace} -l {RUN}={self._run}"
        )

    async def begin(self, state: RunState) -> None:
        """Store the state of a new run.

        Raises:
            StateError: there are Episodes or results of another run of this name.
            ApiError: the API server does not answer, or refuses.
        """
        for resource in (EPISODES, EPISODE_RESULTS):
            if await self._client.list(
                resource, self._namespace, labels=labels(self._run), metadata_only=True
            ):
                raise StateError(
                    f"namespace {self._namespace} has {resource.plural} of a run {self._run} whose "
                    f"state is gone; {self.cure}"
                )
        await self.save(state)

    async def save(self, state: RunState) -> None:
        """Store it.

        Raises:
            ApiError: the API server does not take it.
        """
        await self._client.apply(CONFIG_MAPS, self._body(state), manager=MANAGER)

    def _body(self, state: RunState) -> dict[str, Any]:
        text = orjson.dumps(
            state.model_dump(mode="json", exclude_defaults=True), option=orjson.OPT_NON_STR_KEYS
        ).decode()
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": state_name(self._run),
                "namespace": self._namespace,
                "labels": labels(self._run),
            },
            "data": {_KEY: text},
        }
