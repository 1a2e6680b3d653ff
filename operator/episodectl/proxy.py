"""The operator's web view on this machine's loopback."""

import asyncio
from collections.abc import Callable

from aiohttp import web

from episode_operator.kube.loopback import HOST, own_names, serving
from episodectl.errors import CommandError
from episodectl.operators import Operators

_HOP = frozenset({"connection", "content-length", "date", "keep-alive", "server"})
"""Headers that are of one connection, or made anew."""


async def serve(operators: Operators, port: int, *, on_ready: Callable[[str], None]) -> None:
    """Answer with what the replica answers that knows most, until cancelled.

    Raises:
        CommandError: the port is taken.
    """

    async def answer(request: web.Request) -> web.Response:
        try:
            found = await operators.get(request.path_qs)
        except CommandError as error:
            raise web.HTTPBadGateway(text=str(error)) from error
        headers = {name: value for name, value in found.headers.items() if name.lower() not in _HOP}
        return web.Response(status=found.status, headers=headers, body=found.body)

    application = web.Application(middlewares=[own_names])
    application.router.add_get("/{path:.*}", answer)
    try:
        async with serving(application, port) as taken:
            on_ready(f"http://{HOST}:{taken}/")
            await asyncio.Event().wait()
    except OSError as error:
        raise CommandError(f"port {port}: {error.strerror}; choose one with --port") from error
