"""A cluster, a trainer, and bridges one after the other."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from episode_operator.api.agent import Agent, Model
from episode_operator.api.result import Delivery, EpisodeResult
from episode_operator.kube.client import (
    CONFIG_MAPS,
    EPISODE_RESULTS,
    EPISODES,
    LEASES,
    KubernetesClient,
    Object,
    Resource,
)
from episode_operator.kube.connection import KubernetesConnection
from tests.bridge.operators import NAMESPACE, Operator
from tests.bridge.processes import BridgeProcess, Work, tasks_known
from tests.bridge.trainers import Trainer
from tests.fakes.kubernetes_server import Handler, KubernetesServer
from tests.unit import builders
from trainer_bridge.config import BridgeConfig
from trainer_bridge.run.names import state_name
from trainer_bridge.run.state import RunState
from trainer_bridge.sources import Build, Catalog, Unreadable

RUN = "run"

Around = Callable[[BridgeProcess, web.Request, Handler], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Task:
    """A task that needs nothing."""

    name: str
    family: str = "tests"
    notes: Sequence[str] = ()

    def build(self, agent: Agent, *, prefix: str, model: Model | None = None) -> Build:
        """Its Episode; the image says of which task it is."""
        return Build(builders.spec(task={**_TASK, "image": f"registry.test/{self.name}:1"}))


_TASK = {"instruction": "do it", "solution": {"script": "true"}}


@dataclass
class World:
    """What there is outside of the bridges.

    Attributes:
        kubeconfig: gives the next bridge a token of its own.
        around: acts around each request of a bridge that lives.
        tasks: of the run.
        bridges: all that were started.
    """

    server: KubernetesServer
    operator: Operator
    trainer: Trainer
    kubeconfig: Callable[[str], None]
    folder: Path
    around: Around = field(default_factory=lambda: unhindered)
    tasks: tuple[Task | Unreadable, ...] = tuple(Task(name) for name in "abcd")
    bridges: list[BridgeProcess] = field(default_factory=list)
    _finishing: set[asyncio.Task[None]] = field(default_factory=set)

    def settings(self, *, object_store: str | None = None, **env: Any) -> BridgeConfig:
        """Groups of two."""
        folder = str(self.folder / "evaluations")
        return BridgeConfig.model_validate(
            {
                "run": RUN,
                "tasks": {"builtin": "coding"},
                "episode": {"agent": {"kind": "Oracle"}},
                "env": {"group_size": 2, "eval_folder": folder, **env},
                "sink": {
                    "kind": "custom",
                    "class": "tests.bridge.trainers:TrainerSink",
                    "options": {"trainer": self.trainer},
                },
                "object_store": object_store,
            }
        )

    def start(self, settings: BridgeConfig, work: Work, *, ratio: float = 0) -> BridgeProcess:
        """Start a bridge; `ratio` of the tasks are held out."""
        token = f"bridge-{len(self.bridges)}"
        self.kubeconfig(token)
        catalog = Catalog(self.tasks, source="tests", ratio=ratio, seed=0)
        self.bridges.append(BridgeProcess(token, settings, catalog, work))
        return self.bridges[-1]

    async def process(self, settings: BridgeConfig, groups: int, *, seconds: float = 20) -> None:
        """Let a bridge make so many groups, to its end, after the last one's lease has expired."""
        self.expire_lease()
        bridge = self.start(settings, lambda bridge: bridge.process(groups))
        async with asyncio.timeout(seconds):
            await bridge.main

    async def killed(self, settings: BridgeConfig, groups: int) -> None:
        """As `process`, of a bridge that will be killed; until nothing of it is left."""
        self.expire_lease()
        bridge = self.start(settings, lambda bridge: bridge.process(groups))
        await until(lambda: bridge.dead or bridge.main.done(), seconds=20)
        assert bridge.dead, "it came to its end"
        await bridge.ended()

    async def answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """What the API server does: a bridge that was killed is not heard."""
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        bridge = next((each for each in self.bridges if each.token == token), None)
        if bridge is None:
            return await handler(request)
        if not bridge.dead:
            bridge.requests += 1
            answer = await self.around(bridge, request, self._operated(bridge, handler))
        if bridge.dead:
            return web.Response(status=503)
        return answer

    def _operated(self, bridge: BridgeProcess, handler: Handler) -> Handler:
        async def operated(request: web.Request) -> web.StreamResponse:
            if bridge.dead:
                return web.Response(status=503)
            answer = await handler(request)
            created = request.method == "POST" and request.path == EPISODES.path(NAMESPACE)
            if created and answer.status == 200 and self.operator.at_once:
                name = (await request.json())["metadata"]["name"]
                finishing = asyncio.create_task(self.operator.finish(name))
                self._finishing.add(finishing)
                await asyncio.shield(finishing)  # though the bridge goes away meanwhile
            return answer

        return operated

    def path(self, resource: Resource, name: str) -> str:
        """Path of an object."""
        return resource.path(NAMESPACE, name)

    def names(self, resource: Resource) -> list[str]:
        """Names of the objects that are there."""
        parent = resource.path(NAMESPACE)
        paths = (path.rpartition("/") for path in self.server.objects)
        return sorted(name for folder, _, name in paths if folder == parent)

    @property
    def lease(self) -> Object:
        """The Lease of the run."""
        return self.server.objects[self.path(LEASES, state_name(RUN))]

    def expire_lease(self) -> None:
        """As if half a minute had gone by since the last bridge renewed it."""
        if self.path(LEASES, state_name(RUN)) in self.server.objects:
            self.lease["spec"]["holderIdentity"] = ""

    @property
    def state(self) -> RunState:
        """The state as it is stored."""
        stored = self.server.objects[self.path(CONFIG_MAPS, state_name(RUN))]
        return RunState.model_validate_json(stored["data"]["state"])

    def results(self) -> dict[str, EpisodeResult]:
        """The results that are there, by the names of their Episodes."""
        found = [
            EpisodeResult.model_validate(self.server.objects[self.path(EPISODE_RESULTS, name)])
            for name in self.names(EPISODE_RESULTS)
        ]
        return {result.spec.episode.name: result for result in found}

    def marks(self) -> dict[str, tuple[Delivery | None, str | None]]:
        """How the result of each Episode is marked, and why."""
        return {
            name: (result.status.delivery, result.status.reason)
            for name, result in self.results().items()
        }

    def marked(self, delivery: Delivery) -> set[str]:
        """Names of the groups of which a result was ever marked so."""
        return {
            event.object["spec"]["group"]["name"]
            for event in self.server.events
            if event.path.startswith(EPISODE_RESULTS.path(NAMESPACE))
            and event.object.get("status", {}).get("delivery") == delivery
        }


@asynccontextmanager
async def world_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """An empty one; all bridges are killed in the end."""

    async def headers() -> dict[str, str]:
        return {}

    async with (
        KubernetesServer.running() as server,
        KubernetesClient(KubernetesConnection(server.url, None, headers)) as client,
    ):
        file = folder / "kubeconfig"

        def kubeconfig(token: str) -> None:
            file.write_text(yaml.safe_dump(_kubeconfig(server.url, token)))
            monkeypatch.setenv("KUBECONFIG", str(file))

        world = World(server, Operator(client, reward), Trainer(), kubeconfig, folder)
        server.around = world.answer
        with tasks_known():
            try:
                yield world
            finally:
                for bridge in world.bridges:
                    bridge.kill()
                    await bridge.ended()


def reward(episode: str) -> float:
    """The members of a group differ."""
    return float(int(episode.rpartition("-m")[2][0]))


def _kubeconfig(url: str, token: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url}}],
        "users": [{"name": "bridge", "user": {"token": token}}],
        "contexts": [
            {
                "name": "test",
                "context": {"cluster": "test", "user": "bridge", "namespace": NAMESPACE},
            }
        ],
        "current-context": "test",
    }


async def unhindered(
    bridge: BridgeProcess, request: web.Request, handler: Handler
) -> web.StreamResponse:
    """Nothing is in the way of a request."""
    return await handler(request)


async def mark_of(request: web.Request) -> Delivery | None:
    """What a request marks a result as, if it does."""
    if request.method != "PATCH" or EPISODE_RESULTS.path(NAMESPACE) not in request.path:
        return None
    return Delivery((await request.json())["status"]["delivery"])


async def saved(request: web.Request) -> RunState | None:
    """The state that a request stores, if it does."""
    if request.method != "PATCH" or CONFIG_MAPS.path(NAMESPACE) not in request.path:
        return None
    return RunState.model_validate_json((await request.json())["data"]["state"])


async def until(predicate: Callable[[], Any], *, seconds: float = 10) -> None:
    """Wait until it is true."""
    async with asyncio.timeout(seconds):
        while not predicate():
            await asyncio.sleep(0.005)
