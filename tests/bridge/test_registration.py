"""What is sent while the Atropos server is asked how it stands is not forgotten.

The real server cannot be made to answer between two requests of one question, so this one is
scripted.
"""

from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from trainer_bridge.sinks.atropos.client import AtroposClient
from trainer_bridge.sinks.atropos.registration import Registration
from trainer_bridge.sinks.atropos.settings import AtroposSettings


class ScriptedServer:
    """Registers whoever asks; `queues` are the groups that wait, by environment.

    Attributes:
        on_status: called with the environment that is asked for, before the answer is on its way.
        cut: whether the connection is closed after the next answer.
    """

    def __init__(self) -> None:
        self.queues: list[int] = []
        self.on_status: Callable[[int], None] = lambda env_id: None
        self.cut = False

    async def answer(self, request: web.Request) -> web.Response:
        """Any request."""
        response = web.json_response(self._answer(request.path, await request.json()))
        if self.cut:
            self.cut = False
            response.force_close()
        return response

    def _answer(self, path: str, body: Any) -> dict[str, Any]:
        match path:
            case "/register-env":
                env_id = len(self.queues)
                self.queues.append(0)
                name = f"{body['desired_name']}_{env_id}"
                return {"env_id": env_id, "wandb_name": name, "starting_step": 3, "num_steps": 9}
            case "/status-env":
                waiting = self.queues[body["env_id"]]
                self.on_status(body["env_id"])
                return {"current_step": 3, "queue_size": 9, "self_queue_size": waiting}
        return {}


async def info(request: web.Request) -> web.Response:
    """What is known of the trainer."""
    return web.json_response({"batch_size": 8, "max_token_len": 9})


async def test_a_group_taken_between_two_answers_is_neither_forgotten_nor_displaces_another() -> (
    None
):
    """The first waits under an earlier id, the second is sent between the questions for both."""
    server, app = ScriptedServer(), web.Application()
    app.router.add_get("/info", info)
    app.router.add_route("*", "/{path:.*}", server.answer)
    async with TestServer(app) as running:
        url = str(running.make_url("")).rstrip("/")
        settings = AtroposSettings(url=url, name="n", group_size=2, max_token_length=9)
        client = AtroposClient(settings)
        await client.open()
        registration = Registration(client, settings)
        await registration.refresh()
        registration.took("first")
        server.queues[0], server.cut = 1, True
        await registration.refresh()
        assert registration.sent == 0 and len(server.queues) == 1

        def take(env_id: int) -> None:
            if env_id == 0 and len(server.queues) == 2:
                server.on_status = lambda env_id: None
                server.queues[1] = 1
                registration.took("second")

        server.on_status = take
        await registration.refresh()
        assert registration.sent == 1, "it takes room that the answer does not tell of"
        server.queues, server.cut = [], True  # it is restarted, and has lost both
        await registration.refresh()
        await registration.refresh()
        assert registration.take_lost() == ("first", "second")
        await client.close()
