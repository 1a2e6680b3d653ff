"""The API server's port-forward, to ports of this machine in place of pods'."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import WSMsgType, web

_PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = b"\x00", b"\x01"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def forwarding(
    ports: Mapping[str, int],
) -> Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]:
    """A middleware that forwards to the port of a pod by its name; 0 is one that nobody serves."""

    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        *_, pod, last = request.path.split("/")
        if last != "portforward":
            return await handler(request)
        if pod not in ports:
            return web.json_response({"reason": "Forbidden", "message": "not yours"}, status=403)
        return await _forward(request, ports[pod])

    return answer


async def _forward(request: web.Request, port: int) -> web.WebSocketResponse:
    stream = web.WebSocketResponse(protocols=(_PROTOCOL,))
    await stream.prepare(request)
    assert stream.ws_protocol == _PROTOCOL
    number = int(request.query["ports"]).to_bytes(2, "little")
    await stream.send_bytes(_DATA + number)
    await stream.send_bytes(_ERROR + number)
    if port == 0:
        await stream.send_bytes(_ERROR + b"connection refused")
        await stream.close()
        return stream
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def back() -> None:
        while data := await reader.read(1 << 16):
            await stream.send_bytes(_DATA + data)
        await stream.close()

    returning = asyncio.create_task(back())
    try:
        async for message in stream:
            if message.type is WSMsgType.BINARY:
                writer.write(message.data[1:])
    finally:
        writer.close()
        returning.cancel()
        await asyncio.wait({returning})
    return stream
