"""HTTP to the model server: one request, its typed errors, and repeats within a budget."""

import asyncio
import logging
import random
import time
from collections.abc import Mapping
from typing import Any

import aiohttp
import orjson

from episode_operator.model import metrics, waiting
from episode_operator.model.errors import (
    ContextLengthExceeded,
    ModelBadRequest,
    ModelBadResponse,
    ModelError,
    ModelNotFound,
    ModelOverloaded,
    ModelTimeout,
    ModelUnauthorized,
    ModelUnavailable,
    ScaleOutDisabled,
)
from episode_operator.model.metrics import Operation

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_SECONDS = 10.0
LONGEST_RETRY_AFTER_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 10.0
QUOTED_CHARACTERS = 300
"""So much of a server's own message is quoted: a 422 may echo the whole request."""
_ABSENT = (ScaleOutDisabled, ModelNotFound)
"""What a server answers that has no such path."""


class Transport:
    """Requests to one server. Safe for concurrent use; the session belongs to the caller.

    `retry_budget` is the time, in seconds after a first failure, in which a request is sent again.
    Every request of this package can be repeated: none changes anything on the server, and a lost
    sample was never part of an episode.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        endpoint: str,
        *,
        request_timeout: float,
        retry_budget: float,
        api_key: str | None,
    ) -> None:
        self._session = session
        self.endpoint = endpoint.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(
            total=request_timeout, sock_connect=CONNECT_TIMEOUT_SECONDS
        )
        self._retry_budget = retry_budget
        self._headers = {"Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        operation: Operation = Operation.STATE,
    ) -> dict[str, Any]:
        """The decoded JSON object answered to one request; repeats it where that may help.

        `operation` is what the request is measured as. Raises a ModelError.
        """
        raw = await self.call_raw(method, path, body, operation=operation)
        try:
            answer = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise ModelBadResponse(f"{path} answered no valid JSON: {error}") from error
        if not isinstance(answer, dict):
            raise ModelBadResponse(f"{path} answered {type(answer).__name__}, not an object")
        return answer

    async def optional(self, method: str, path: str) -> dict[str, Any] | None:
        """Like `call`, but None where the server has no such path."""
        try:
            return await self.call(method, path)
        except _ABSENT:
            return None

    async def call_raw(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        operation: Operation = Operation.STATE,
    ) -> bytes:
        """The body answered to one request, not decoded."""
        data = None if body is None else orjson.dumps(body)
        with waiting.current().asking(self.paused):
            try:
                return await self._once(method, path, data, operation)
            except ModelError as error:
                failure = error
            return await self._again(method, path, data, operation, failure)

    async def paused(self) -> bool:
        """Whether the server puts off all requests; False where it does not tell."""
        answer = await self.optional("GET", "/is_paused")
        return answer is not None and answer.get("is_paused") is True

    async def _again(
        self,
        method: str,
        path: str,
        data: bytes | None,
        operation: Operation,
        failure: ModelError,
    ) -> bytes:
        # The budget counts from the first failure: a long request may fail long after its start.
        end, failures = time.monotonic() + self._retry_budget, 1
        while True:
            pause = pause_seconds(failures, failure.retry_after)
            if not failure.repeatable or time.monotonic() + pause > end:
                raise failure
            logger.warning("%s%s; again in %.1f s: %s", self.endpoint, path, pause, failure)
            with waiting.current().failing(failure):
                await asyncio.sleep(pause)
                try:
                    return await self._once(method, path, data, operation)
                except ModelError as error:
                    failure, failures = error, failures + 1

    async def _once(
        self, method: str, path: str, data: bytes | None, operation: Operation
    ) -> bytes:
        begun = time.monotonic()
        try:
            content = await self._send(method, path, data)
        except ModelError as error:
            if operation is not Operation.STATE or not isinstance(error, _ABSENT):
                metrics.REQUEST_ERRORS.labels(operation, error.reason).inc()
            raise
        metrics.REQUEST_SECONDS.labels(operation).observe(time.monotonic() - begun)
        return content

    async def _send(self, method: str, path: str, data: bytes | None) -> bytes:
        url = self.endpoint + path
        try:
            async with self._session.request(
                method, url, data=data, headers=self._headers, timeout=self._timeout
            ) as response:
                content = await response.read()
                if response.status != 200:
                    raise error_of_status(
                        response.status,
                        content,
                        path=path,
                        retry_after=response.headers.get("Retry-After"),
                    )
                return content
        except aiohttp.ConnectionTimeoutError as error:
            raise ModelUnavailable(
                f"no connection to {self.endpoint} within {CONNECT_TIMEOUT_SECONDS:.0f} s; "
                "check model.endpoint and that the server runs"
            ) from error
        except TimeoutError as error:
            raise ModelTimeout(
                f"{path} did not answer within {self._timeout.total:.0f} s; raise "
                "model.requestTimeoutSeconds, lower model.sampling.maxTokens or add servers"
            ) from error
        except aiohttp.ClientError as error:
            raise ModelUnavailable(
                f"{path} failed: {type(error).__name__}: {error}; check model.endpoint and that "
                "the server runs"
            ) from error


def pause_seconds(failures: int, retry_after: float | None) -> float:
    """Seconds to wait after so many failures in a row, from 1; what the server asked for and more.

    Half of the pause is random at any length: thousands of Episodes that a server failed at one
    moment must not come back to it at one moment.
    """
    longest = min(FIRST_PAUSE_SECONDS * 2 ** min(failures, 16), LONGEST_PAUSE_SECONDS)
    return (retry_after or 0.0) + random.uniform(longest / 2, longest)


def _retry_after_seconds(header: str | None) -> float | None:
    """Seconds of a Retry-After header, bounded; None for the date form and for nonsense."""
    if header is None or not header.strip().isdigit():
        return None
    return min(float(header), LONGEST_RETRY_AFTER_SECONDS)


def message_of(content: bytes) -> str:
    """The server's own words about an error, cut short."""
    try:
        answer = orjson.loads(content)
        message = answer["error"]["message"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        message = content.decode(errors="replace")
    text = " ".join(str(message).split())
    return text if len(text) <= QUOTED_CHARACTERS else f"{text[:QUOTED_CHARACTERS]}..."


def error_of_status(  # noqa: PLR0911  (one return per status is the clearest table)
    status: int, content: bytes, *, path: str, retry_after: str | None
) -> ModelError:
    """The typed error of an answer that is not 200."""
    said = message_of(content)
    if status in (400, 413, 422):
        if "maximum context length" in said or "maximum model length" in said:
            return ContextLengthExceeded(f"{path}: {said}")
        if "context length" in said and "exceeds" in said:
            return ContextLengthExceeded(f"{path}: {said}")
        return ModelBadRequest(f"{path} refused the request ({status}): {said}")
    if status == 401:
        return ModelUnauthorized(f"{path} wants a valid API key: {said}")
    if status == 403 and "scale-out" in said.lower():
        return ScaleOutDisabled(
            f"{path} is forbidden: {said} (start vLLM >= 0.32 with --enable-scale-out)"
        )
    if status == 403:
        return ModelUnauthorized(f"{path} is forbidden: {said}; is a gateway before the server?")
    if status == 404 and "model" in said.lower():
        return ModelNotFound(f"{said} (set model.name to a name that GET /v1/models lists)")
    if status == 404:
        return ScaleOutDisabled(
            f"{path} does not exist: {said} (vLLM >= 0.32 with --enable-scale-out has it; "
            "model.endpoint is the base URL, without /v1)"
        )
    if status in (429, 503):
        return ModelOverloaded(
            f"{path} answered {status}: {said}; run fewer episodes at once or more servers",
            retry_after=_retry_after_seconds(retry_after),
        )
    if status == 501:
        return ModelBadRequest(f"{path} is not implemented for this model: {said}")
    if status >= 500:
        return ModelUnavailable(f"{path} answered {status}: {said}; see the server's log")
    return ModelBadRequest(f"{path} answered {status}: {said}")
