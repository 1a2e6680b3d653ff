"""A port of a pod on this machine's loopback, through the API server: `kubectl port-forward`.

Protocol v4.channel.k8s.io: for each port two channels, data and error, each of which begins with
the port's number in two bytes.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp

from episode_operator.kube import websocket
from episode_operator.kube.client import PODS, ApiError
from episode_operator.kube.connection import KubernetesConnection
from episode_operator.kube.loopback import HOST

_PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_PORT_NUMBER_BYTES = 2
_CHUNK_BYTES = 1 << 16


@dataclass(slots=True)
class Forward:
    """A forwarded port.

    Attributes:
        url: of the local listener.
        failure: why the last connection that failed did so; empty if none has.
    """

    url: str
    failure: str = ""


@asynccontextmanager
async def forwarded(
    connection: KubernetesConnection, *, namespace: str, pod: str, port: int
) -> AsyncIterator[Forward]:
    """Forward the port, also where the pod listens on its own loopback only.

    Raises:
        ApiError: the API server refuses, as without the right to `create pods/portforward`.
    """
    path = PODS.path(namespace, pod, "portforward")
    query = [("ports", str(port))]
    async with aiohttp.ClientSession() as http:

        async def opened() -> aiohttp.ClientWebSocketResponse:
            return await websocket.connect(
                connection, http, path, query=query, protocols=(_PROTOCOL,)
            )

        await (await opened()).close()  # one error now, and not with each connection
        forward = Forward("")
        carrying: set[asyncio.Task[None]] = set()

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                async with await opened() as stream:
                    await _carry(stream, reader, writer)
            except (ApiError, ConnectionError, aiohttp.ClientError) as error:
                forward.failure = str(error)
            finally:
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(carry(reader, writer), name=f"port of {pod}")
            carrying.add(task)
            task.add_done_callback(carrying.discard)

        listener = await asyncio.start_server(accept, HOST, 0)
        async with listener:
            address = listener.sockets[0].getsockname()
            forward.url = f"http://{address[0]}:{address[1]}"
            try:
                yield forward
            finally:
                for task in carrying:
                    task.cancel()
                await asyncio.gather(*carrying, return_exceptions=True)


async def _carry(
    stream: aiohttp.ClientWebSocketResponse,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Carry bytes both ways until either side has ended.

    Raises:
        ConnectionError: the pod does not take the connection; the text says why.
    """
    ways = {asyncio.create_task(_send(reader, stream)), asyncio.create_task(_take(stream, writer))}
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in ways:
            task.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
    for task in done:
        task.result()


async def _send(reader: asyncio.StreamReader, stream: aiohttp.ClientWebSocketResponse) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        await stream.send_bytes(bytes([_DATA]) + data)


async def _take(stream: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> None:
    """Raises ConnectionError with what the pod says of a connection that it does not take."""
    begun: set[int] = set()
    async for message in stream:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel not in begun:
            begun.add(channel)
            data = data[_PORT_NUMBER_BYTES:]
        if channel == _DATA and data:
            writer.write(data)
            await writer.drain()
        elif channel == _ERROR and data:
            raise ConnectionError(data.decode(errors="replace").strip())
