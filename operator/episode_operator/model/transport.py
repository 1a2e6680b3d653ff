"""HTTP to the model server: one request, its typed errors, and repeats within a budget."""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
import orjson
import stamina

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

CONNECT_TIMEOUT_SECONDS = 10.0
LONGEST_RETRY_AFTER_SECONDS = 30.0
_FIRST_PAUSE_SECONDS = 0.2
QUOTED_CHARACTERS = 300
"""So much of a server's own message is quoted: a 422 may echo the whole request."""


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
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The decoded JSON object answered to one request; repeats it where that may help.

        Raises a ModelError.
        """
        raw = await self.call_raw(method, path, body)
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
        except (ScaleOutDisabled, ModelNotFound):
            return None

    async def call_raw(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> bytes:
        """The body answered to one request, not decoded."""
        data = None if body is None else orjson.dumps(body)
        try:
            return await self._once(method, path, data)
        except ModelError as error:
            pause = _pause_before_repeat(error)
            if pause is False:
                raise
            await asyncio.sleep(_FIRST_PAUSE_SECONDS if pause is True else pause)
        # The budget counts from the first failure: a long request may fail long after its start.
        async for attempt in stamina.retry_context(
            on=_pause_before_repeat,
            attempts=None,
            timeout=self._retry_budget,
            wait_initial=2 * _FIRST_PAUSE_SECONDS,
            wait_max=10.0,
            wait_jitter=0.5,
        ):
            with attempt:
                return await self._once(method, path, data)
        raise AssertionError("stamina ends with a value or an exception")

    async def _once(self, method: str, path: str, data: bytes | None) -> bytes:
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


def _pause_before_repeat(error: Exception) -> bool | float:
    """False: do not repeat. True: after the usual back-off. A number: after so many seconds."""
    if not isinstance(error, ModelError) or not error.repeatable:
        return False
    return True if error.retry_after is None else error.retry_after


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
    if status in (400, 422):
        if "maximum context length" in said or "maximum model length" in said:
            return ContextLengthExceeded(f"{path}: {said}")
        if "context length" in said and "exceeds" in said:
            return ContextLengthExceeded(f"{path}: {said}")
        return ModelBadRequest(f"{path} refused the request ({status}): {said}")
    if status == 401:
        return ModelUnauthorized(f"{path} wants a valid API key: {said}")
    if status == 403:
        return ScaleOutDisabled(
            f"{path} is forbidden: {said} (start vLLM >= 0.32 with --enable-scale-out)"
        )
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
    if status >= 500:
        return ModelUnavailable(f"{path} answered {status}: {said}; see the server's log")
    return ModelBadRequest(f"{path} answered {status}: {said}")
