"""Large results in an object store: stored, read back, and waited for while the store is away."""

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from episode_operator.api.episode import Episode
from episode_operator.kube.client import CONFIG_MAPS, EVENTS
from episode_operator.results.objects import ObjectStore
from episode_operator.results.record import EpisodeRecord
from tests.cluster.episodes import PASSING_TEST, Episodes, scripted
from tests.cluster.local_operator import operating
from tests.fakes import chat
from tests.fakes.vllm_server import MODEL, FakeVllm, Reply
from tests.ports import free_port
from tests.stores import gateway

SAMPLED = 80_000
CONTEXT = 100_000


@pytest.fixture
async def fake() -> AsyncIterator[FakeVllm]:
    async with FakeVllm.running() as server:
        server.max_model_len = CONTEXT
        yield server


def not_stored(episode: Episode) -> bool:
    """Whether the status says that the result waits for the store."""
    return any(
        (one.type, one.status, one.reason) == ("Verified", "False", "ResultNotStored")
        for one in episode.status.conditions
    )


async def test_a_large_row_waits_for_its_store_and_is_read_back(
    unwatched: Episodes, busybox: str, fake: FakeVllm, tmp_path: Path
) -> None:
    ids = np.random.default_rng(7).integers(300, 55_000, SAMPLED - 1).tolist()
    sampled = (*ids, chat.END)
    fake.replies.append(Reply(ids=sampled))
    model = {"endpoint": fake.url, "name": MODEL, "sampling": {"maxTokens": SAMPLED}}
    port = free_port()
    environment = gateway.environment(f"http://127.0.0.1:{port}")
    settings = {"EPISODE_OBJECT_STORE": f"s3://{gateway.BUCKET}/rollouts", **environment}
    async with operating(unwatched, tmp_path, settings) as operator:
        agent = {"kind": "Model", "toolsets": ["terminal"]}
        large = scripted(busybox, agent=agent, model=model, test=PASSING_TEST)
        await unwatched.create("large", large)
        small = await unwatched.run("small", scripted(busybox))
        assert small.verdict == ("Passed", 1, "TestsPassed")
        waiting = await unwatched.until("large", not_stored)
        assert waiting.status.verdict is None
        async with gateway.running(tmp_path / "s3", port=port) as server:
            ended = await unwatched.finish("large")
            files = server.objects()
            with gateway.variables(environment):
                store = ObjectStore(f"s3://{gateway.BUCKET}/rollouts")
                record = await EpisodeRecord.load(
                    unwatched.client, namespace=unwatched.namespace, name="large", store=store
                )
    assert ended.verdict == ("Passed", 1, "TestsPassed"), operator.log()
    assert ended.episode.status.attempt == 0
    result = ended.result.metadata["name"]
    blobs = {"tokens": ended.result.spec.tokens, "messages": ended.result.spec.messages}
    for kind, blob in blobs.items():
        assert blob is not None
        name = f"{unwatched.namespace}/{result}/{kind}-{blob.sha256}"
        assert blob.uri == f"{store.url}/{name}"
        assert server.folder / "rollouts" / name in files
    assert len(files) == len(blobs)
    assert record.row is not None
    assert tuple(record.row.tokens[record.row.mask].tolist()) == sampled
    parts = await unwatched.client.list(CONFIG_MAPS, unwatched.namespace)
    assert [part for part in parts if part["metadata"]["name"].startswith(result)] == []
    events = await unwatched.client.list(EVENTS, unwatched.namespace)
    (said,) = [event for event in events if event["reason"] == "ResultNotStored"]
    assert said["type"] == "Warning" and "check the endpoint" in said["message"]


async def test_a_folder_as_a_store(unwatched: Episodes, busybox: str, tmp_path: Path) -> None:
    """Artifacts that do not compress are large enough, and need no model."""
    folder = tmp_path / "store"
    folder.mkdir()
    settings = {"EPISODE_OBJECT_STORE": f"file://{folder}"}
    fill = {"tool": "terminal", "arguments": {"command": "head -c 300000 /dev/urandom > noise"}}
    spec = scripted(busybox, fill, artifacts=["/workspace/noise"])
    async with operating(unwatched, tmp_path, settings):
        ended = await unwatched.run("folder", spec)
    blob = ended.result.spec.artifacts
    assert blob is not None and blob.uri is not None
    (file,) = [path for path in folder.rglob("*") if path.is_file()]
    assert blob.uri == f"file://{file}"
    assert file.stat().st_size == blob.size
