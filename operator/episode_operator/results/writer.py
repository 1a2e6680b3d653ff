"""Writes and reads an EpisodeResult with its blobs."""

import asyncio
from typing import Any

from episode_operator.api.base import API_VERSION
from episode_operator.api.result import Blob, EpisodeResult, EpisodeResultSpec
from episode_operator.kube.client import (
    CONFIG_MAPS,
    EPISODE_RESULTS,
    AlreadyExistsError,
    KubernetesClient,
)
from episode_operator.results import blobs, messages, payload
from episode_operator.results.objects import ObjectStore
from episode_operator.results.payload import TokenRow

TOKENS = "tokens"
MESSAGES = "messages"
ARTIFACTS = "artifacts"

_LOOK_SECONDS = 0.5
_COLLECTED_LOOKS = 120


class ResultConflictError(Exception):
    """A result or a part of that name is of something else; it is never overwritten."""


def _owner(result: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "EpisodeResult",
        "name": result["metadata"]["name"],
        "uid": result["metadata"]["uid"],
    }


def _owned(part: dict[str, Any] | None, result: dict[str, Any]) -> bool:
    """Whether the part is there, and stays as long as the result does."""
    owners = part["metadata"].get("ownerReferences", []) if part is not None else []
    return any(owner["uid"] == result["metadata"]["uid"] for owner in owners)


def _blobs(spec: EpisodeResultSpec) -> dict[str, Blob]:
    found = {TOKENS: spec.tokens, MESSAGES: spec.messages, ARTIFACTS: spec.artifacts}
    return {kind: blob for kind, blob in found.items() if blob is not None}


async def load(client: KubernetesClient, *, namespace: str, name: str) -> EpisodeResult | None:
    """The result, if it was written whole: without a part of its own it does not count as written.

    Objects are not looked for: they are there before the result is, and the store may delete them
    while the result stays.
    """
    stored = await client.get(EPISODE_RESULTS, namespace, name)
    if stored is None:
        return None
    result = EpisodeResult.model_validate(stored)
    for blob in _blobs(result.spec).values():
        for part in blob.parts or []:
            if not _owned(await client.get(CONFIG_MAPS, namespace, part), stored):
                return None
    return result


async def _create_or_replace_half(
    client: KubernetesClient, body: dict[str, Any], described: dict[str, Blob]
) -> dict[str, Any]:
    """Create the result; one left without its parts by a crash is completed or made anew."""
    metadata = body["metadata"]
    try:
        return await client.create(EPISODE_RESULTS, body)
    except AlreadyExistsError:
        stored = await client.get(EPISODE_RESULTS, metadata["namespace"], metadata["name"])
    if stored is None:
        return await client.create(EPISODE_RESULTS, body)
    spec = EpisodeResultSpec.model_validate(stored["spec"])
    wanted = body["spec"]["episode"]["uid"]
    if spec.episode.uid != wanted:
        raise ResultConflictError(
            f"EpisodeResult {metadata['name']} is of Episode uid {spec.episode.uid}, "
            f"not {wanted}; rename one of the Episodes"
        )
    if _blobs(spec) == described:
        return stored
    await client.delete(
        EPISODE_RESULTS, metadata["namespace"], metadata["name"], uid=stored["metadata"]["uid"]
    )
    return await client.create(EPISODE_RESULTS, body)


async def write(
    client: KubernetesClient,
    *,
    name: str,
    namespace: str,
    labels: dict[str, str],
    spec: EpisodeResultSpec,
    row: TokenRow | None,
    conversation: list[dict[str, Any]] | None,
    artifacts: bytes | None,
    store: ObjectStore | None,
) -> EpisodeResult:
    """Write the result with its blobs. The first whole result of an Episode stays for ever.

    Large blobs go into the store, before the result; without a store into ConfigMaps, after it.

    Raises:
        ResultConflictError: a result of that name is of another Episode, or a part's name is taken.
        PayloadError: the row is not consistent.
        ObjectStoreError: the store did not take a blob; nothing of the result is written.
    """
    whole = await load(client, namespace=namespace, name=name)
    if whole is not None and whole.spec.episode.uid == spec.episode.uid:
        return whole
    content: dict[str, tuple[bytes, blobs.Encoding]] = {}
    if row is not None:
        content[TOKENS] = (await asyncio.to_thread(payload.encode, row), payload.ENCODING)
    if conversation is not None:
        data = await asyncio.to_thread(messages.encode, conversation)
        content[MESSAGES] = (data, messages.ENCODING)
    if artifacts is not None:
        content[ARTIFACTS] = (artifacts, "tar+gzip")
    described = {
        kind: await _place(
            data, encoding=encoding, namespace=namespace, result=name, kind=kind, store=store
        )
        for kind, (data, encoding) in content.items()
    }
    body = {
        "apiVersion": API_VERSION,
        "kind": "EpisodeResult",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": spec.model_copy(update=described).to_api(),
    }
    stored = await _create_or_replace_half(client, body, described)
    for kind, (data, _) in content.items():
        await _write_parts(client, described[kind], data, owner=stored)
    return EpisodeResult.model_validate(stored)


async def write_blob(
    client: KubernetesClient,
    data: bytes,
    *,
    encoding: blobs.Encoding,
    kind: str,
    result: EpisodeResult,
    store: ObjectStore | None,
) -> Blob:
    """Write one more blob of a result that is there, for its status; the same data again is no-op.

    Raises:
        ObjectStoreError: the store did not take it.
        ResultConflictError: a ConfigMap of a part's name is of something else, and stays.
    """
    metadata = result.metadata
    blob = await _place(
        data,
        encoding=encoding,
        namespace=metadata["namespace"],
        result=metadata["name"],
        kind=kind,
        store=store,
    )
    await _write_parts(client, blob, data, owner={"metadata": metadata})
    return blob


async def _place(
    data: bytes,
    *,
    encoding: blobs.Encoding,
    namespace: str,
    result: str,
    kind: str,
    store: ObjectStore | None,
) -> Blob:
    """Where the data goes; if that is the store, it is there when this returns."""
    if blobs.fits_inline(data):
        return blobs.inline(data, encoding=encoding)
    if store is None:
        return blobs.in_parts(data, encoding=encoding, result=result, kind=kind)
    key = blobs.object_key(data, namespace=namespace, result=result, kind=kind)
    return blobs.in_object(data, encoding=encoding, uri=await store.write(key, data))


async def _write_parts(
    client: KubernetesClient, blob: Blob, data: bytes, *, owner: dict[str, Any]
) -> None:
    namespace = owner["metadata"]["namespace"]
    if blob.parts is None:
        return
    for name, part in zip(blob.parts, blobs.split(data), strict=True):
        body = blobs.part_body(name, part, namespace=namespace, owner=_owner(owner))
        await _write_part(client, body, owner)


async def _write_part(
    client: KubernetesClient, body: dict[str, Any], owner: dict[str, Any]
) -> None:
    """Create a part, once the garbage collector has taken one of a deleted result of that name.

    The operator itself may delete no ConfigMaps.
    """
    metadata = body["metadata"]
    for _ in range(_COLLECTED_LOOKS):
        try:
            await client.create(CONFIG_MAPS, body)
            return
        except AlreadyExistsError:
            stored = await client.get(CONFIG_MAPS, metadata["namespace"], metadata["name"])
        if _owned(stored, owner):
            return
        await asyncio.sleep(_LOOK_SECONDS)
    raise ResultConflictError(
        f"ConfigMap {metadata['name']} is no part of EpisodeResult {owner['metadata']['name']}; "
        "delete it"
    )


async def read_blob(
    client: KubernetesClient, *, namespace: str, blob: Blob, store: ObjectStore | None = None
) -> bytes:
    """The checked bytes of a blob.

    A blob that is an object is read through `store` if it is in there, else with the AWS_*
    variables of this process.

    Raises:
        BlobError: a part is missing or the bytes are not what was written.
        ObjectStoreError: the object store does not give it.
    """
    if blob.uri is not None:
        if store is None or not store.covers(blob.uri):
            store = ObjectStore.of(blob.uri)
        return blobs.checked(blob, await store.read(blob.uri, size=blob.size))
    if blob.parts is None:
        return blobs.checked(blob, blobs.inline_bytes(blob))
    parts = []
    for name in blob.parts:
        config_map = await client.get(CONFIG_MAPS, namespace, name)
        if config_map is None:
            raise blobs.BlobError(f"part {name} is missing")
        parts.append(blobs.part_bytes(config_map))
    return blobs.checked(blob, b"".join(parts))
