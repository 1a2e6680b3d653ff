"""The command line against an API server on the loopback."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from episodectl import episodes
from episodectl.cli import app
from tests.unit import builders, records
from tests.unit.records import Cluster

FINISHED = {
    "type": "Finished",
    "status": "True",
    "reason": "TestsPassed",
    "lastTransitionTime": "2026-11-29T10:00:09Z",
}
PASSED = {
    "phase": "Finished",
    "verdict": "Passed",
    "reward": 1.0,
    "turns": 2,
    "reason": "TestsPassed",
    "message": "test.sh wrote reward 1",
    "conditions": [FINISHED],
}


@asynccontextmanager
async def cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    """An empty one, which the command line finds; waits are over at once."""
    async with records.cluster() as found:
        monkeypatch.setenv("KUBECONFIG", found.kubeconfig(folder))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(episodes, "_POLL_SECONDS", 0.0)
        yield found


def add(
    cluster: Cluster,
    name: str,
    status: Mapping[str, Any] | None = None,
    *,
    namespace: str = records.NAMESPACE,
    labels: Mapping[str, str] | None = None,
    created: str = builders.CREATED,
    **spec: Any,
) -> dict[str, Any]:
    """An Episode as the API server has it."""
    body: dict[str, Any] = {
        "apiVersion": "episodes.dev/v1alpha1",
        "kind": "Episode",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-of-{name}",
            "creationTimestamp": created,
            "resourceVersion": "1",
            "labels": dict(labels or {}),
        },
        "spec": builders.spec(**spec).model_dump(mode="json", by_alias=True, exclude_none=True),
        "status": dict(status or {}),
    }
    path = f"/apis/episodes.dev/v1alpha1/namespaces/{namespace}/episodes/{name}"
    cluster.server.objects[path] = body
    return body


def end_all(cluster: Cluster, **status: Any) -> None:
    """An operator that finishes every Episode as soon as somebody looks at it."""

    def on_get(path: str) -> None:
        found = cluster.server.objects.get(path)
        if found is not None and "/episodes/" in path:
            found["status"] = {**PASSED, **status}

    cluster.server.on_get = on_get


async def invoke(*arguments: str) -> Result:
    """Run the command line as a program would: without a terminal."""
    return await asyncio.to_thread(lambda: CliRunner().invoke(app, list(arguments)))


def lines(result: Result) -> list[dict[str, Any]]:
    """The lines of JSON on standard output."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def stored(cluster: Cluster, plural: str) -> list[dict[str, Any]]:
    """The objects of a kind, in the order of their creation."""
    return [body for path, body in cluster.server.objects.items() if f"/{plural}/" in path]
