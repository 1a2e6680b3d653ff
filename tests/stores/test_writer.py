"""Results with large blobs: written to a store or to ConfigMaps, and checked when read."""

import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from episode_operator.api.agent import AgentKind
from episode_operator.api.reasons import Verdict
from episode_operator.api.result import Blob, EpisodeReference, EpisodeResult, EpisodeResultSpec
from episode_operator.kube.client import KubernetesClient
from episode_operator.kube.connection import KubernetesConnection
from episode_operator.results import payload, writer
from episode_operator.results.blobs import BlobError
from episode_operator.results.objects import ObjectMissing, ObjectStore, StoreUnreachable
from episode_operator.results.payload import TokenRow
from episode_operator.results.writer import ResultConflictError
from tests.fakes.kubernetes_server import KubernetesServer
from tests.ports import free_port
from tests.stores.gateway import BUCKET, Gateway, variables

NAMESPACE, NAME = "space", "episode-12345678"
RANDOM = np.random.default_rng(7)


@pytest.fixture
async def cluster() -> AsyncIterator[KubernetesServer]:
    async with KubernetesServer.running() as server:
        yield server


@pytest.fixture
async def client(cluster: KubernetesServer) -> AsyncIterator[KubernetesClient]:
    async def headers() -> dict[str, str]:
        return {}

    async with KubernetesClient(KubernetesConnection(cluster.url, None, headers)) as found:
        yield found


@pytest.fixture
def store(server: Gateway) -> Iterator[ObjectStore]:
    with variables(server.environment()):
        yield ObjectStore(f"s3://{BUCKET}/results")


def row(n: int = 100_000) -> TokenRow:
    """A row that compresses badly."""
    return TokenRow(
        tokens=RANDOM.integers(0, 150_000, n, dtype=np.int32),
        mask=np.ones(n, dtype=np.bool_),
        logprobs=-RANDOM.random(n, dtype=np.float32),
        turn=np.zeros(n, dtype=np.int16),
    )


def spec(uid: str = "uid") -> EpisodeResultSpec:
    now = datetime(2026, 11, 30, tzinfo=UTC)
    return EpisodeResultSpec(
        episode=EpisodeReference(name="episode", uid=uid),
        verdict=Verdict.PASSED,
        reason="TestsPassed",
        reward=1.0,
        harness="testScript",
        agent_kind=AgentKind.MODEL,
        image="image",
        started_at=now,
        finished_at=now,
    )


async def write(
    client: KubernetesClient, store: ObjectStore | None, tokens: TokenRow, **more: Any
) -> EpisodeResult:
    given: dict[str, Any] = {"conversation": [{"role": "user", "content": "do it"}], **more}
    return await writer.write(
        client,
        name=NAME,
        namespace=NAMESPACE,
        labels={},
        spec=spec(),
        row=tokens,
        artifacts=None,
        store=store,
        **given,
    )


async def read(
    client: KubernetesClient, blob: Blob | None, store: ObjectStore | None = None
) -> TokenRow:
    assert blob is not None
    return payload.decode(
        await writer.read_blob(client, namespace=NAMESPACE, blob=blob, store=store)
    )


async def test_a_large_row_is_an_object_and_small_messages_are_inline(
    client: KubernetesClient, cluster: KubernetesServer, server: Gateway, store: ObjectStore
) -> None:
    written = row()
    result = await write(client, store, written)
    blob = result.spec.tokens
    assert blob is not None and blob.inline is None and blob.parts is None
    assert blob.uri == f"{store.url}/{NAMESPACE}/{NAME}/tokens-{blob.sha256}"
    assert result.spec.messages is not None and result.spec.messages.inline is not None
    assert cluster.kinds() == ["episoderesults"]
    for through in (store, None, ObjectStore(f"s3://{BUCKET}")):
        assert (await read(client, blob, through)).tokens.tolist() == written.tokens.tolist()


async def test_without_a_store_a_large_row_is_in_config_maps(
    client: KubernetesClient, cluster: KubernetesServer
) -> None:
    written = row(400_000)
    result = await write(client, None, written)
    assert result.spec.tokens is not None and result.spec.tokens.uri is None
    parts = len(result.spec.tokens.parts or [])
    assert parts > 1
    assert cluster.kinds() == ["configmaps"] * parts + ["episoderesults"]
    assert (await read(client, result.spec.tokens)).tokens.tolist() == written.tokens.tolist()


async def test_parts_of_a_result_that_was_made_anew_are_its_own(
    client: KubernetesClient, cluster: KubernetesServer
) -> None:
    """A crash left a half-written result; the garbage collector takes its parts with it, later."""
    written = row(400_000)
    half = await write(client, None, written)
    assert half.spec.tokens is not None and half.spec.tokens.parts is not None
    folder = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    del cluster.objects[f"{folder}/{half.spec.tokens.parts[-1]}"]
    other: Any = [{"role": "user", "content": "do something else"}]
    slowly_collected(cluster)
    result = await write(client, None, written, conversation=other)
    assert result.metadata["uid"] != half.metadata["uid"]
    assert result.spec.tokens == half.spec.tokens
    collect_garbage(cluster)
    found = await writer.load(client, namespace=NAMESPACE, name=NAME)
    assert found is not None and found.spec == result.spec
    assert (await read(client, result.spec.tokens)).tokens.tolist() == written.tokens.tolist()


async def test_a_result_whose_parts_are_anothers_is_not_whole(
    client: KubernetesClient, cluster: KubernetesServer
) -> None:
    """An operator that stopped after it had made the result anew wrote no parts for it."""
    written = row(400_000)
    half = await write(client, None, written)
    path = f"/apis/episodes.dev/v1alpha1/namespaces/{NAMESPACE}/episoderesults/{NAME}"
    cluster.objects[path]["metadata"]["uid"] = "made-anew"
    assert await writer.load(client, namespace=NAMESPACE, name=NAME) is None
    slowly_collected(cluster)
    result = await write(client, None, written)
    assert result.spec == half.spec and result.metadata["uid"] == "made-anew"
    collect_garbage(cluster)
    found = await writer.load(client, namespace=NAMESPACE, name=NAME)
    assert found is not None and found.spec == result.spec


async def test_a_config_map_of_a_parts_name_is_never_taken_for_the_part(
    client: KubernetesClient, cluster: KubernetesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_LOOK_SECONDS", 0.001)
    written = row(400_000)
    whole = await write(client, None, written)
    assert whole.spec.tokens is not None and whole.spec.tokens.parts is not None
    name = whole.spec.tokens.parts[0]
    part = cluster.objects[f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}"]
    del part["metadata"]["ownerReferences"]
    with pytest.raises(ResultConflictError, match=name):
        await write(client, None, written)


def slowly_collected(cluster: KubernetesServer) -> None:
    """The operator may delete no parts; the garbage collector comes when each was seen twice."""
    seen: Counter[str] = Counter()

    def look(path: str) -> None:
        seen[path] += 1
        if "/configmaps/" in path and seen[path] == 3:
            collect_garbage(cluster)

    cluster.on_get = look
    cluster.refuse = lambda method, path: (
        (403, "forbidden") if method == "DELETE" and "/configmaps/" in path else None
    )


def collect_garbage(cluster: KubernetesServer) -> None:
    """Delete what is owned by objects that are gone."""
    uids = {item["metadata"]["uid"] for item in cluster.objects.values()}
    for path, item in list(cluster.objects.items()):
        owners = item["metadata"].get("ownerReferences", [])
        if owners and not any(owner["uid"] in uids for owner in owners):
            del cluster.objects[path]


async def test_the_object_is_there_before_the_result(
    client: KubernetesClient, cluster: KubernetesServer, server: Gateway, store: ObjectStore
) -> None:
    """A crash between the two leaves an object, and the next try writes the same one again."""
    written = row()
    before = len(server.objects())
    cluster.refuse = lambda method, _: (422, "not now") if method == "POST" else None
    with pytest.raises(Exception, match="not now"):
        await write(client, store, written)
    assert len(server.objects()) == before + 1 and not cluster.objects
    cluster.refuse = lambda *_: None
    result = await write(client, store, written)
    assert len(server.objects()) == before + 1
    assert (await read(client, result.spec.tokens)).tokens.tolist() == written.tokens.tolist()


async def test_nothing_is_written_while_the_store_is_away(
    client: KubernetesClient, cluster: KubernetesServer, server: Gateway
) -> None:
    with variables(server.environment(AWS_ENDPOINT_URL=f"http://127.0.0.1:{free_port()}")):
        away = ObjectStore(f"s3://{BUCKET}/results")
        with pytest.raises(StoreUnreachable):
            await write(client, away, row())
        assert not cluster.objects
        small = await write(client, away, row(100))
    assert small.spec.tokens is not None and small.spec.tokens.inline is not None


async def test_bytes_that_were_changed_are_refused(
    client: KubernetesClient, server: Gateway, store: ObjectStore
) -> None:
    result = await write(client, store, row())
    blob = result.spec.tokens
    assert blob is not None
    (file,) = [path for path in server.objects() if path.name.endswith(blob.sha256)]
    data = file.read_bytes()
    for changed in (data[:-1] + bytes([data[-1] ^ 1]), data[:-1], data + b"x", b""):
        file.write_bytes(changed)
        with pytest.raises(BlobError):
            await read(client, blob, store)
    file.unlink()
    with pytest.raises(ObjectMissing):
        await read(client, blob, store)


async def test_a_written_result_outlives_its_objects(
    client: KubernetesClient, server: Gateway, store: ObjectStore
) -> None:
    """A lifecycle rule of the bucket deletes objects; that must not make the Episode run again."""
    result = await write(client, store, row())
    for file in server.objects():
        file.unlink()
    found = await writer.load(client, namespace=NAMESPACE, name=NAME)
    assert found is not None and found.spec == result.spec


@pytest.mark.parametrize("kind", ["folder", "s3", "none"])
async def test_a_later_blob_of_a_result(
    client: KubernetesClient, server: Gateway, tmp_path: Path, kind: str
) -> None:
    with variables(server.environment()):
        store = {
            "folder": ObjectStore(f"file://{tmp_path}"),
            "s3": ObjectStore(f"s3://{BUCKET}/later"),
            "none": None,
        }[kind]
        result = await write(client, store, row(10))
        for size in (10, 1 << 20):
            data = os.urandom(size)
            blobs = [
                await writer.write_blob(
                    client,
                    data,
                    encoding="safetensors+zstd",
                    kind="distillation",
                    result=result,
                    store=store,
                )
                for _ in range(2)
            ]
            assert blobs[0] == blobs[1]
            read_back = await writer.read_blob(client, namespace=NAMESPACE, blob=blobs[0])
            assert read_back == data
