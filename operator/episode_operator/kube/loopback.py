"""HTTP servers on this machine's loopback, which answer only under its own names."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

HOST = "127.0.0.1"
_NAMES = frozenset({HOST, "localhost"})

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def own_names(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse any other name: a web site may let one of its own lead to the loopback."""
    if request.url.host not in _NAMES:
        raise web.HTTPForbidden(text=f"{request.host} is not this machine's loopback")
    return await handler(request)


@asynccontextmanager
async def serving(application: web.Application, port: int) -> AsyncIterator[int]:
    """Serve at the port, any free one if 0, which is given.

    Raises:
        OSError: the port is taken.
    """
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
