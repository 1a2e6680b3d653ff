"""The operator's web view on this machine's loopback."""

import asyncio
from collections.abc import Callable

from aiohttp import web

from episodectl.errors import CommandError
from episodectl.operators import Operators

_LOOPBACK = "127.0.0.1"
_NAMES = frozenset({_LOOPBACK, "localhost"})
_HOP = frozenset({"connection", "content-length", "date", "keep-alive", "server"})
"""Headers that are of one connection, or made anew."""


async def serve(operators: Operators, port: int, *, on_ready: Callable[[str], None]) -> None:
    """Answer with what the replica answers that knows most, until cancelled.

    Raises:
        CommandError: the port is taken.
    """

    async def answer(request: web.Request) -> web.Response:
        if request.url.host not in _NAMES:  # another site's page, under a name of its own
            raise web.HTTPForbidden(text=f"{request.host} is not this machine's loopback")
        try:
            found = await operators.get(request.path_qs)
        except CommandError as error:
            raise web.HTTPBadGateway(text=str(error)) from error
        headers = {name: value for name, value in found.headers.items() if name.lower() not in _HOP}
        return web.Response(status=found.status, headers=headers, body=found.body)

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, _LOOPBACK, port).start()
        except OSError as error:
            raise CommandError(f"port {port}: {error.strerror}; choose one with --port") from error
        on_ready(f"http://{_LOOPBACK}:{runner.addresses[0][1]}/")
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
