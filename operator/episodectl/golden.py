"""Runs tasks' own solutions as Episodes, and takes away what it made."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from episode_operator.api.agent import Agent, AgentKind
from episode_operator.api.labels import unique_name
from episode_operator.kube.client import (
    CONFIG_MAPS,
    EPISODE_RESULTS,
    EPISODES,
    ApiError,
    KubernetesClient,
)
from episodectl import episodes
from episodectl.outcome import Mark, Outcome, judge
from trainer_bridge.sources import Build, Task, Unreadable

RUN_LABEL = "episodes.dev/golden"

_SLUG_LENGTH = 40


async def scan(
    tasks: Sequence[Task | Unreadable],
    run: Callable[[int, Task], Awaitable[Outcome]],
    *,
    parallel: int,
    on_start: Callable[[str], None],
    on_end: Callable[[Outcome], None],
) -> list[Outcome]:
    """The outcomes of the tasks, in their order; `run(index, task)` gives one, so many at once."""
    limit = asyncio.Semaphore(parallel)

    async def one(index: int, task: Task | Unreadable) -> Outcome:
        if isinstance(task, Unreadable):
            outcome = unreadable(Path(task.path).name, task)
        else:
            async with limit:
                on_start(task.name)
                outcome = await run(index, task)
            outcome = replace(outcome, notes=tuple(task.notes))
        on_end(outcome)
        return outcome

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(one(index, task)) for index, task in enumerate(tasks)]
    return [each.result() for each in running]


def unreadable(name: str, error: Unreadable) -> Outcome:
    """The outcome of a task that cannot be read."""
    return Outcome(name, Mark.ERR, "Unreadable", error.reason)


@dataclass(slots=True)
class Made:
    """Names of what was created for one task, noted before it is: a request may be cut off."""

    episode: str
    uid: str | None = None
    config_maps: list[str] = field(default_factory=list)


class GoldenRunner:
    """Runs one task after the other on a cluster; all its objects carry the run's label."""

    def __init__(
        self, client: KubernetesClient, *, namespace: str, run: str, seconds: int, keep: bool
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._run = run
        self._keep = keep
        self._agent = Agent(
            kind=AgentKind.ORACLE,
            timeout_seconds=seconds,
            tool_timeout_seconds=min(Agent().tool_timeout_seconds, seconds - 1),
        )
        self.leftovers: list[str] = []

    @property
    def selector(self) -> str:
        """The label by which everything that was made is found."""
        return f"{RUN_LABEL}={self._run}"

    async def run(self, index: int, task: Task) -> Outcome:
        """Run the task's solution to its end. Nothing that was made stays, unless it is kept."""
        slug = re.sub(r"[^a-z0-9]+", "-", task.name.lower()).strip("-")[:_SLUG_LENGTH].strip("-")
        made = Made("-".join(part for part in ("golden", self._run, str(index), slug) if part))
        try:
            build = await asyncio.to_thread(task.build, self._agent, prefix=made.episode)
        except Unreadable as error:
            return unreadable(task.name, error)
        try:
            await self._create(build, made)
            return await self._finish(task.name, made)
        except ApiError as error:
            return Outcome(task.name, Mark.ERR, "ApiError", str(error), episode=made.episode)
        except episodes.NotFinishedError as error:
            return Outcome(task.name, Mark.ERR, error.reason, str(error), episode=made.episode)
        finally:
            if not self._keep:
                await self._delete(made)

    async def _create(self, build: Build, made: Made) -> None:
        labels = {RUN_LABEL: self._run}
        *parts, (resource, body) = episodes.objects(
            made.episode, build, namespace=self._namespace, labels=labels
        )
        for kind, part in parts:
            made.config_maps.append(part["metadata"]["name"])
            await self._client.create(kind, part)
        made.uid = (await self._client.create(resource, body))["metadata"]["uid"]

    async def _finish(self, name: str, made: Made) -> Outcome:
        episode = await episodes.finished(self._client, self._namespace, made.episode)
        stored = await self._client.get(
            EPISODE_RESULTS, self._namespace, unique_name(episode.name, episode.uid)
        )
        return judge(name, episode, stored)

    async def _delete(self, made: Made) -> None:
        """Delete the Episode first: what it still needs goes last."""
        objects = [(EPISODES, made.episode)]
        if made.uid is not None:
            objects.append((EPISODE_RESULTS, unique_name(made.episode, made.uid)))
        objects += [(CONFIG_MAPS, name) for name in made.config_maps]
        for resource, name in objects:
            try:
                await self._client.delete(resource, self._namespace, name)
            except ApiError as error:
                self.leftovers.append(f"{resource.plural} {name}: {error}")
