"""HTTP to an Atropos server, on one connection.

The server keeps all it knows in memory and tells nobody when it has lost it. But a process that
ends takes its connections along: while a connection lives, the server at its end is the same one,
and knows what it knew. So there is one connection at a time, they are counted, and a request can be
bound to one of them.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any, Final

import aiohttp
import orjson

from trainer_bridge.sinks.atropos.settings import AtroposSettings
from trainer_bridge.sinks.base import NotSentError, SinkError, UnknownArrivalError

_CHUNK_BYTES: Final = 256 << 10
_SHOWN_CHARACTERS: Final = 500


class AnswerError(SinkError):
    """The server answered, but not what was asked.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, path: str, status: int, content: bytes) -> None:
        super().__init__(f"{path} answered {status}: {shown(content)}")
        self.status = status


def shown(content: bytes) -> str:
    """At most the first 500 characters of an answer, which may echo all that was posted."""
    return content[: 4 * _SHOWN_CHARACTERS].decode(errors="replace")[:_SHOWN_CHARACTERS]


class AtroposClient:
    """Requests to one server, one after the other. Safe for concurrent use.

    Attributes:
        connections: how many have been made, so also the number of the newest one.
    """

    def __init__(self, settings: AtroposSettings) -> None:
        self.connections = 0
        self._url = settings.url.rstrip("/")
        self._settings = settings
        self._turn = asyncio.Lock()
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Make the session; nothing is sent yet."""
        trace = aiohttp.TraceConfig()
        trace.on_connection_create_start.append(_refuse_if_bound)
        trace.on_connection_create_end.append(self._count)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=1), trace_configs=[trace]
        )

    async def close(self) -> None:
        """Close the connection."""
        if self._session is not None:
            await self._session.close()

    async def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        connection: int | None = None,
    ) -> dict[str, Any]:
        """A small request; the answer's object.

        Raises:
            NotSentError, UnknownArrivalError: there was no answer.
            AnswerError: the answer was not 200, or no object.
        """
        status, content = await self._request(
            method,
            path,
            b"" if body is None else orjson.dumps(body),
            seconds=self._settings.request_seconds,
            connection=connection,
        )
        try:
            answer = orjson.loads(content) if status == 200 else None
        except orjson.JSONDecodeError as error:
            raise AnswerError(path, status, content) from error
        if not isinstance(answer, dict):
            raise AnswerError(path, status, content)
        return answer

    async def post(
        self, path: str, body: bytes, *, compressed: bool, connection: int
    ) -> tuple[int, bytes]:
        """Post JSON, gzip if compressed, on this connection or not at all; status and answer.

        Raises:
            NotSentError: the connection is gone; nothing was sent.
            UnknownArrivalError: there was no answer, or not in time.
        """
        return await self._request(
            "POST",
            path,
            body,
            seconds=self._settings.send_seconds,
            connection=connection,
            headers={"Content-Encoding": "gzip"} if compressed else {},
        )

    async def _request(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        seconds: float,
        connection: int | None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        assert self._session is not None, "open() comes first"
        limit = aiohttp.ClientTimeout(total=seconds, sock_connect=self._settings.connect_seconds)
        described = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        async with self._turn:
            if connection is not None and connection != self.connections:
                raise NotSentError("the connection to Atropos was lost")
            try:
                async with self._session.request(
                    method,
                    self._url + path,
                    data=_chunks(body) if body else None,
                    headers={**described, **(headers or {})} if body else None,
                    timeout=limit,
                    allow_redirects=False,  # they would make a GET of a POST
                    trace_request_ctx=connection,
                ) as response:
                    return response.status, await response.read()
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                raise NotSentError(f"no connection to Atropos: {error}") from error
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                said = str(error) or type(error).__name__
                raise UnknownArrivalError(f"no answer of Atropos to {path}: {said}") from error

    async def _count(self, *_: object) -> None:
        self.connections += 1


async def _refuse_if_bound(
    _session: aiohttp.ClientSession,
    context: SimpleNamespace,
    _params: aiohttp.TraceConnectionCreateStartParams,
) -> None:
    """No new connection for a request that is bound to an earlier one."""
    if context.trace_request_ctx is not None:
        raise NotSentError("the connection to Atropos was lost")


async def _chunks(body: bytes) -> AsyncIterator[memoryview]:
    view = memoryview(body)
    for start in range(0, len(body), _CHUNK_BYTES):
        yield view[start : start + _CHUNK_BYTES]
