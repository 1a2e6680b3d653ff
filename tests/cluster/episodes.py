"""Episodes in tests: make one, run it, look at what it gave."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from episode_operator.api.episode import Episode
from episode_operator.api.result import EpisodeResult
from episode_operator.kube.client import (
    EPISODE_RESULTS,
    EPISODES,
    PODS,
    KubernetesClient,
    Resource,
)
from episode_operator.results import messages, payload, writer
from episode_operator.results.payload import TokenRow

FINISH_SECONDS = 480.0
_POLL_SECONDS = 0.2
_SLOW_POLL_SECONDS = 0.5
_SLOW_AFTER_SECONDS = 3.0
_AT_ONCE = 4
_NAMESPACE_SECONDS = 60.0
_SERVICE_ACCOUNTS = Resource("/api/v1", "serviceaccounts")

PASSING_TEST = "echo 1 > /logs/verifier/reward.txt"


@dataclass(frozen=True)
class Ended:
    """A finished Episode with its result."""

    episode: Episode
    result: EpisodeResult

    @property
    def verdict(self) -> tuple[str, float | None, str]:
        """Verdict, reward and reason, as the status has them."""
        status = self.episode.status
        return str(status.verdict), status.reward, str(status.reason)


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """A tool call of a scripted agent."""
    return {"tool": tool, "arguments": arguments}


def terminal(command: str, **more: Any) -> dict[str, Any]:
    """A terminal call of a scripted agent."""
    return call("terminal", command=command, **more)


def scripted(
    image: str, *calls: dict[str, Any], test: str = PASSING_TEST, **spec: Any
) -> dict[str, Any]:
    """The spec of a scripted Episode with a test script; `spec` replaces top-level fields."""
    return {
        "task": {"image": image, "instruction": "do it", "workdir": "/workspace"},
        "agent": {"kind": "Scripted", "script": list(calls) or [terminal("true")]},
        "verifier": {"testScript": {"script": test}, "timeoutSeconds": 60},
        **spec,
    }


def manifest(name: str, namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    """An Episode object."""
    return {
        "apiVersion": "episodes.dev/v1alpha1",
        "kind": "Episode",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def is_ready(pod: dict[str, Any] | None) -> bool:
    """Whether a pod is there and its condition Ready is true."""
    conditions = (pod or {}).get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


class Episodes:
    """Episodes of one namespace."""

    def __init__(self, client: KubernetesClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    @classmethod
    @asynccontextmanager
    async def in_namespace(
        cls, client: KubernetesClient, prefix: str = "test-"
    ) -> AsyncIterator["Episodes"]:
        """Episodes of a namespace of their own, which is deleted afterwards."""
        name = f"{prefix}{uuid.uuid4().hex[:8]}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await client.request("POST", "/api/v1/namespaces", body=body)
        try:
            async with asyncio.timeout(_NAMESPACE_SECONDS):
                while await client.get(_SERVICE_ACCOUNTS, name, "default") is None:
                    await asyncio.sleep(0.02)  # without it the API server refuses pods
            yield cls(client, name)
        finally:
            await client.request("DELETE", f"/api/v1/namespaces/{name}")

    async def create(self, name: str, spec: dict[str, Any]) -> Episode:
        """Create an Episode."""
        body = manifest(name, self.namespace, spec)
        return Episode.model_validate(await self.client.create(EPISODES, body))

    async def get(self, name: str) -> Episode:
        """The Episode as it is now."""
        stored = await self.client.get(EPISODES, self.namespace, name)
        assert stored is not None, f"episode {name} is gone"
        return Episode.model_validate(stored)

    async def pods(self, name: str) -> list[dict[str, Any]]:
        """The pods of an Episode."""
        return await self.client.list(PODS, self.namespace, labels={"episodes.dev/episode": name})

    async def until(
        self, name: str, condition: Callable[[Episode], bool], *, seconds: float = FINISH_SECONDS
    ) -> Episode:
        """Wait until the condition holds."""
        begun = time.monotonic()
        while not condition(episode := await self.get(name)):
            waited = time.monotonic() - begun
            assert waited < seconds, f"not within {seconds} s: {episode.status}"
            await asyncio.sleep(
                _POLL_SECONDS if waited < _SLOW_AFTER_SECONDS else _SLOW_POLL_SECONDS
            )
        return episode

    async def until_running(self, name: str) -> Episode:
        """Wait until the Episode's pod is driven and, which is later, says that it is ready."""
        episode = await self.until(name, lambda e: e.status.phase == "Running")
        end = time.monotonic() + FINISH_SECONDS
        while not any(is_ready(pod) for pod in await self.pods(name)):
            assert time.monotonic() < end, f"the pod is not ready after {FINISH_SECONDS} s"
            await asyncio.sleep(_POLL_SECONDS)
        return episode

    async def finish(self, name: str, *, seconds: float = FINISH_SECONDS) -> Ended:
        """Wait until the Episode is finished; its result."""
        episode = await self.until(name, lambda e: e.status.phase == "Finished", seconds=seconds)
        assert episode.status.result_name is not None
        stored = await self.client.get(EPISODE_RESULTS, self.namespace, episode.status.result_name)
        assert stored is not None
        return Ended(episode, EpisodeResult.model_validate(stored))

    async def run(self, name: str, spec: dict[str, Any]) -> Ended:
        """Create an Episode and wait until it is finished."""
        await self.create(name, spec)
        return await self.finish(name)

    async def run_all(self, specs: dict[str, dict[str, Any]]) -> dict[str, Ended]:
        """Run several Episodes at once, not so many that a small node starts nothing else."""
        places = asyncio.Semaphore(_AT_ONCE)

        async def run(name: str, spec: dict[str, Any]) -> Ended:
            async with places:
                return await self.run(name, spec)

        ended = await asyncio.gather(*(run(name, spec) for name, spec in specs.items()))
        return dict(zip(specs, ended, strict=True))

    async def messages(self, ended: Ended) -> list[dict[str, Any]]:
        """The conversation of a result."""
        blob = ended.result.spec.messages
        assert blob is not None
        return messages.decode(
            await writer.read_blob(self.client, namespace=self.namespace, blob=blob)
        )

    async def answers(self, ended: Ended) -> list[str]:
        """The tools' answers in a result's conversation."""
        return [m["content"] for m in await self.messages(ended) if m["role"] == "tool"]

    async def row(self, ended: Ended) -> TokenRow:
        """The training row of a result."""
        blob = ended.result.spec.tokens
        assert blob is not None
        return payload.decode(
            await writer.read_blob(self.client, namespace=self.namespace, blob=blob)
        )
