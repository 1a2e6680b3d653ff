"""Texts of token ids, from the model server that knows them."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from episode_operator.kube.client import ApiError, KubernetesClient

_SERVICE = re.compile(r"(?P<name>[a-z0-9-]+)\.(?P<namespace>[a-z0-9-]+)(\.svc(\.cluster\.local)?)?")
_AT_ONCE = 16
_SECONDS = 30.0

Ask = Callable[[dict[str, Any]], Awaitable[Any]]


class NoTexts(Exception):
    """The model server gives none; the text says why."""


async def texts(
    ids: Iterable[int], *, endpoint: str, model: str, through: KubernetesClient | None
) -> dict[int, str]:
    """The text of each id. An id that is a part of a character has `\\ufffd` in it.

    A Service of the cluster is asked through the API server of `through`, if that is given.

    Raises:
        NoTexts: the server cannot be reached or does not answer as it must.
    """
    async with _server(through, endpoint) as ask:
        limit = asyncio.Semaphore(_AT_ONCE)

        async def one(token_id: int) -> str:
            async with limit:
                answer = await ask({"model": model, "tokens": [token_id]})
            text = answer.get("prompt") if isinstance(answer, dict) else None
            if not isinstance(text, str):
                raise NoTexts(f"{endpoint}/detokenize answered {answer!r}: is this a vLLM server?")
            return text

        wanted = sorted(set(ids))
        first = [await one(token_id) for token_id in wanted[:1]]  # one error is enough
        rest = await asyncio.gather(*(one(token_id) for token_id in wanted[1:]))
        return dict(zip(wanted, [*first, *rest], strict=True))


@asynccontextmanager
async def _server(through: KubernetesClient | None, endpoint: str) -> AsyncIterator[Ask]:
    path = _service_path(endpoint)
    if through is not None and path is not None:
        yield lambda body: _through_api_server(through, path, body, endpoint)
        return
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as http:
        yield lambda body: _directly(http, endpoint, body)


def _service_path(endpoint: str) -> str | None:
    """Path of a Service's proxy in the API server; None for another server."""
    url = urlsplit(endpoint)
    service = _SERVICE.fullmatch(url.hostname or "")
    if service is None:
        return None
    port = url.port or (443 if url.scheme == "https" else 80)
    return (
        f"/api/v1/namespaces/{service['namespace']}/services/"
        f"{url.scheme}:{service['name']}:{port}/proxy{url.path.rstrip('/')}/detokenize"
    )


async def _through_api_server(
    client: KubernetesClient, path: str, body: dict[str, Any], endpoint: str
) -> Any:
    try:
        return await client.request("POST", path, body=body)
    except (ApiError, ValueError) as error:
        raise NoTexts(f"{endpoint} does not answer through the API server: {error}") from error


async def _directly(http: aiohttp.ClientSession, endpoint: str, body: dict[str, Any]) -> Any:
    url = f"{endpoint.rstrip('/')}/detokenize"
    try:
        async with http.post(url, json=body) as answer:
            content = await answer.read()
            if answer.status != 200:
                said = content[:200].decode(errors="replace")
                raise NoTexts(f"{url} answered {answer.status}: {said}")
            return orjson.loads(content)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise NoTexts(f"{url} does not answer: {type(error).__name__}: {error}") from error
