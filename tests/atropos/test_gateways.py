"""What a gateway before the server may answer to a post."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tests.atropos.groups import group
from tests.atropos.sinks import ready, settings
from trainer_bridge.sinks.atropos import AtroposSink
from trainer_bridge.sinks.base import NotSentError, RefusedError, SinkError, UnknownArrivalError

ANSWERS = {
    "/info": {"batch_size": 4, "max_token_len": 4096},
    "/register-env": {"env_id": 0, "wandb_name": "x_0", "starting_step": 0, "num_steps": 0},
    "/status-env": {"current_step": 0, "queue_size": 0, "self_queue_size": 0},
    "/disconnect-env": {"status": "success"},
}


@asynccontextmanager
async def gateway(status: int, text: str) -> AsyncIterator[tuple[AtroposSink, list[str]]]:
    """A sink whose posts are answered so, and what it asked besides how the server stands."""
    others: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        if request.path in ANSWERS:
            return web.json_response(ANSWERS[request.path])
        await request.read()
        others.append(f"{request.method} {request.path}")
        return web.Response(status=status, text=text, headers={"Location": "/elsewhere"})

    application = web.Application(client_max_size=1 << 20)
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        sink = AtroposSink(settings(f"http://{host}:{port}"))
        await sink.open()
        try:
            await ready(sink)
            yield sink, others
        finally:
            await sink.close()
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (200, '{"status": "something else"}', UnknownArrivalError),
        (200, "no JSON", UnknownArrivalError),
        (302, "", NotSentError),
        (307, "", NotSentError),
        (401, "who are you", NotSentError),
        (429, "later", NotSentError),
        (400, "Invalid gzip payload", RefusedError),
        (413, "too large", RefusedError),
        (500, "Internal Server Error", UnknownArrivalError),
        (503, "no upstream", UnknownArrivalError),
    ],
)
async def test_what_an_answer_says_of_the_group(
    status: int, text: str, expected: type[SinkError]
) -> None:
    async with gateway(status, text) as (sink, others):
        with pytest.raises(expected, match=f"answered {status}"):
            await sink.send(group())
        assert others == ["POST /scored_data"]  # once, and no redirect was followed
