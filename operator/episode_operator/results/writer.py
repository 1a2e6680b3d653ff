"""Writes and reads an EpisodeResult with its parts."""

import contextlib
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
from episode_operator.results.payload import TokenRow

TOKENS = "tokens"
MESSAGES = "messages"
ARTIFACTS = "artifacts"


class ResultConflictError(Exception):
    """A result of that name is of another Episode; it is never overwritten."""


def _owner(result: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "EpisodeResult",
        "name": result["metadata"]["name"],
        "uid": result["metadata"]["uid"],
    }


def _blobs(spec: EpisodeResultSpec) -> dict[str, Blob]:
    found = {TOKENS: spec.tokens, MESSAGES: spec.messages, ARTIFACTS: spec.artifacts}
    return {kind: blob for kind, blob in found.items() if blob is not None}


async def load(client: KubernetesClient, *, namespace: str, name: str) -> EpisodeResult | None:
    """The result, if it was written whole: without a part it does not count as written."""
    stored = await client.get(EPISODE_RESULTS, namespace, name)
    if stored is None:
        return None
    result = EpisodeResult.model_validate(stored)
    for blob in _blobs(result.spec).values():
        for part in blob.parts or []:
            if await client.get(CONFIG_MAPS, namespace, part) is None:
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
) -> EpisodeResult:
    """Write the result, then its parts. The first whole result of an Episode stays for ever.

    Raises:
        ResultConflictError: a result of that name is of another Episode.
        PayloadError: the row is not consistent.
    """
    whole = await load(client, namespace=namespace, name=name)
    if whole is not None and whole.spec.episode.uid == spec.episode.uid:
        return whole
    content: dict[str, tuple[bytes, blobs.Encoding]] = {}
    if row is not None:
        content[TOKENS] = (payload.encode(row), payload.ENCODING)
    if conversation is not None:
        content[MESSAGES] = (messages.encode(conversation), messages.ENCODING)
    if artifacts is not None:
        content[ARTIFACTS] = (artifacts, "tar+gzip")
    described = {
        kind: blobs.describe(data, encoding=encoding, result=name, kind=kind)
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
        for part_name, part in zip(described[kind].parts or [], blobs.split(data), strict=True):
            part_object = blobs.part_body(
                part_name, part, namespace=namespace, owner=_owner(stored)
            )
            with contextlib.suppress(AlreadyExistsError):
                await client.create(CONFIG_MAPS, part_object)
    return EpisodeResult.model_validate(stored)


async def read_blob(client: KubernetesClient, *, namespace: str, blob: Blob) -> bytes:
    """The checked bytes of a blob.

    Raises:
        BlobError: a part is missing or the bytes are not what was written.
    """
    parts = []
    for name in blob.parts or []:
        config_map = await client.get(CONFIG_MAPS, namespace, name)
        if config_map is None:
            raise blobs.BlobError(f"part {name} is missing")
        parts.append(blobs.part_bytes(config_map))
    return blobs.join(blob, parts)
