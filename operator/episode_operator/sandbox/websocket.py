"""A channel over the exec endpoint of the API server."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import aiohttp
import orjson

from episode_operator.kube.client import PODS, ApiError
from episode_operator.kube.connection import KubernetesConnection
from episode_operator.kube.websocket import connect

from .channel import ChannelClosed, ChannelRefused, OpenChannel

_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN: Final = b"\x00"
_STDOUT: Final = 1
_STDERR: Final = 2
_STATUS: Final = 3
_FINAL: Final = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.GONE})


class WebSocketChannel:
    """stdin and stdout of one command in a container. Its stderr and status end up in the error."""

    def __init__(self, websocket: aiohttp.ClientWebSocketResponse) -> None:
        self._websocket = websocket
        self._stderr = b""
        self._status = ""

    async def send(self, data: bytes) -> None:
        try:
            await self._websocket.send_bytes(_STDIN + data)
        except (ConnectionError, aiohttp.ClientError) as error:
            raise ChannelClosed(self._describe(f"{error}")) from error

    async def receive(self) -> bytes:
        while True:
            message = await self._websocket.receive()
            if message.type is not aiohttp.WSMsgType.BINARY:
                raise ChannelClosed(self._describe(f"websocket {message.type.name.lower()}"))
            data: bytes = message.data
            if len(data) < 2:
                continue
            if data[0] == _STDOUT:
                return data[1:]
            if data[0] == _STDERR:
                self._stderr = (self._stderr + data[1:])[-4096:]
            elif data[0] == _STATUS:
                self._status = _status_text(data[1:])

    async def close(self) -> None:
        await self._websocket.close()

    def _describe(self, what: str) -> str:
        stderr = self._stderr.decode(errors="replace").strip()
        return "; ".join(part for part in (what, stderr, self._status) if part)


def _status_text(data: bytes) -> str:
    try:
        fields = orjson.loads(data)
    except orjson.JSONDecodeError:
        return data[:500].decode(errors="replace")
    return f"{fields.get('status', '')}: {fields.get('message', '')}".rstrip(": ")


def open_exec(
    connection: KubernetesConnection,
    http: aiohttp.ClientSession,
    *,
    namespace: str,
    pod: str,
    container: str,
    command: tuple[str, ...],
) -> OpenChannel:
    """How to open a channel to `command` in a container, again and again.

    Args:
        http: any client session; certificates and credentials come from `connection`.
    """
    query = [
        ("container", container),
        ("stdin", "true"),
        ("stdout", "true"),
        ("stderr", "true"),
        *(("command", part) for part in command),
    ]
    path = PODS.path(quote(namespace), quote(pod), "exec")

    async def open_channel() -> WebSocketChannel:
        try:
            stream = await connect(connection, http, path, query=query, protocols=_PROTOCOLS)
        except ApiError as error:
            refused = f"HTTP {error.status} " if error.status else ""
            raise ChannelRefused(
                f"exec in {namespace}/{pod}: {refused}{error}", final=error.status in _FINAL
            ) from error
        return WebSocketChannel(stream)

    return open_channel
