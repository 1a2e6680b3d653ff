"""Resolves what an Episode refers to: text in ConfigMaps and Secrets of its namespace."""

import base64
import hashlib
from collections.abc import Sequence
from http import HTTPStatus

from episode_operator.api.base import Archive, ContentSource, File
from episode_operator.kube.client import CONFIG_MAPS, SECRETS, ApiError, KubernetesClient
from episode_operator.verifier.base import TestArchive, TestFile


class InvalidInputError(Exception):
    """A reference that leads nowhere, or to what cannot be used; says what to change."""


async def _referenced(client: KubernetesClient, namespace: str, source: ContentSource) -> bytes:
    if source.config_map_key_ref is not None:
        resource, reference, kind = CONFIG_MAPS, source.config_map_key_ref, "ConfigMap"
    else:
        assert source.secret_key_ref is not None  # CEL admits exactly one of them
        resource, reference, kind = SECRETS, source.secret_key_ref, "Secret"
    try:
        found = await client.get(resource, namespace, reference.name)
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        raise InvalidInputError(
            f"the operator may not read {kind} {reference.name}; "
            "set operator.secretReferences in the chart's values"
        ) from error
    if found is None:
        raise InvalidInputError(f"there is no {kind} {reference.name} in namespace {namespace}")
    plain, encoded = found.get("data", {}), found.get("binaryData", {})
    if kind == "Secret":
        plain, encoded = {}, plain
    if reference.key in plain:
        return str(plain[reference.key]).encode()
    if reference.key in encoded:
        return base64.b64decode(encoded[reference.key])
    raise InvalidInputError(f"{kind} {reference.name} has no key {reference.key}")


async def files(client: KubernetesClient, namespace: str, wanted: Sequence[File]) -> list[TestFile]:
    """The files with their content.

    Raises:
        InvalidInputError: a reference leads nowhere.
    """
    resolved = []
    for file in wanted:
        content = (
            file.content.encode()
            if file.content_from is None and file.content is not None
            else await _referenced(client, namespace, _source(file))
        )
        resolved.append(TestFile(file.path, content, int(file.mode, 8)))
    return resolved


async def archives(
    client: KubernetesClient, namespace: str, wanted: Sequence[Archive]
) -> list[TestArchive]:
    """The archives with their content, checked.

    Raises:
        InvalidInputError: a part is missing, or it is not what was put there.
    """
    return [
        TestArchive(archive.path, await _archive(client, namespace, archive)) for archive in wanted
    ]


async def _archive(client: KubernetesClient, namespace: str, archive: Archive) -> bytes:
    parts = []
    for name in archive.parts:
        found = await client.get(CONFIG_MAPS, namespace, name)
        part = (found or {}).get("binaryData", {}).get("part")
        if part is None:
            raise InvalidInputError(
                f"there is no ConfigMap {name} with binaryData.part in namespace {namespace}"
            )
        parts.append(base64.b64decode(part))
    content = b"".join(parts)
    if hashlib.sha256(content).hexdigest() != archive.sha256:
        raise InvalidInputError(f"the archive in {', '.join(archive.parts)} has another sha256")
    return content


def _source(file: File) -> ContentSource:
    assert file.content_from is not None  # CEL admits exactly one of content and contentFrom
    return file.content_from


async def text(
    client: KubernetesClient, namespace: str, inline: str | None, source: ContentSource | None
) -> str:
    """Text that is given inline or by reference.

    Raises:
        InvalidInputError: the reference leads nowhere, or to what is no text.
    """
    if inline is not None:
        return inline
    assert source is not None  # CEL admits exactly one of them
    try:
        return (await _referenced(client, namespace, source)).decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"the instruction is not text in UTF-8: {error}") from error
