"""A model server that says what it is told to, in vLLM's wire format, over real HTTP on loopback.

async with FakeVllm.running() as server:
    server.replies.append(Reply("Done."))
    server.faults.append(Fault(path="/inference/v1/generate", status=503))
    ... VllmClient.open(server.url, "policy") ...
    server.requests    # (path, body) of all that came
"""

import asyncio
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from aiohttp import web

from tests.fakes import chat
from tests.fakes.judge import ScriptedJudge
from tests.fakes.scoring import BadRequestError, PromptScoring

MODEL = "policy"
RENDER, GENERATE = "/v1/chat/completions/render", "/inference/v1/generate"
DERENDER = "/v1/chat/completions/derender"
CHAT = "/v1/chat/completions"
_SCALE_OUT = (RENDER, GENERATE, DERENDER)


def logprob_of(position: int, token_id: int) -> float:
    """The one logprob a token has here at a position of a sequence when it is sampled."""
    return -((position * 31 + token_id * 17) % 97 + 1) / 64


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A sample: `text` and, when it stops, the end token; or just these `ids`."""

    text: str = ""
    ids: tuple[int, ...] | None = None
    finish_reason: str = "stop"
    weights: str | None = None
    """Label of the weights, when it is not the server's."""

    @property
    def token_ids(self) -> list[int]:
        """The sampled ids."""
        if self.ids is not None:
            return list(self.ids)
        return chat.encode(self.text) + ([chat.END] if self.finish_reason == "stop" else [])


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What goes wrong with the next request of a path, instead of or with its answer."""

    path: str
    lasting: bool = False
    """With all of them, not only the next."""
    status: int | None = None
    message: str = "injected"
    body: dict[str, Any] | None = None
    """The whole body of an answer with a status, in place of the usual one with `message`."""
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False
    """Close the connection in the middle of the answer."""
    delay: float = 0.0
    raw: bytes | None = None
    """Answer these bytes, with status 200."""
    change: Callable[[dict[str, Any]], None] | None = None
    """Change the answer in place."""


class Tokenizer(Protocol):
    """What the server needs of one: `chat` itself, or a tests.fakes.bpe.Tokenizer."""

    def encode(self, text: str, /) -> list[int]:
        """Ids of a text."""

    def decode(self, ids: Sequence[int], /) -> str:
        """Text of ids."""

    def piece_of(self, token_id: int, /) -> str:
        """The vocabulary's string of an id."""


class RefusedError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class FakeVllm:
    """The server. Its attributes may be changed while it runs."""

    def __init__(self) -> None:
        self.url = ""
        self.replies: deque[Reply] = deque()
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.tokenizer: Tokenizer = chat
        self.template: chat.Template = chat.chatml
        self.root = "/models/policy"
        self.max_model_len = 4096
        self.logprobs_mode = "processed"
        self.scale_out = True
        self.weights: str | None = None
        self.labels_weights = False
        self.paused = False
        """Answered to /is_paused; requests are answered all the same."""
        self.vocabulary = 2**20
        """Ids from here on decode to nothing."""
        self.scoring = PromptScoring()
        self.judge = ScriptedJudge()

    @classmethod
    @asynccontextmanager
    async def running(cls, host: str = "127.0.0.1") -> AsyncIterator[Self]:
        """A server on a free port of an address of this machine."""
        server = cls()
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", server._handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        site = web.TCPSite(runner, host, 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        server.url = f"http://{host}:{port}"
        try:
            yield server
        finally:
            await runner.cleanup()

    def bodies(self, path: str) -> list[dict[str, Any]]:
        """Bodies of all requests to a path, in order."""
        return [body for at, body in self.requests if at == path]

    def reply_to(self, prompt: list[int]) -> Reply:
        """What is sampled after a prompt: the next of `replies`, whatever the prompt is."""
        return self.replies.popleft() if self.replies else Reply(text="Done.")

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else {}
        self.requests.append((request.path, body))
        fault = next((one for one in self.faults if one.path == request.path), None)
        if fault is not None:
            if not fault.lasting:
                self.faults.remove(fault)
            await asyncio.sleep(fault.delay)
            broken = await _instead(fault, request)
            if broken is not None:
                return broken
        try:
            answer = await self._answered(request.path, body)
        except RefusedError as error:
            return _error(error.status, str(error))
        except (chat.TemplateError, BadRequestError) as error:
            return _error(400, str(error))
        if fault is not None and fault.change is not None:
            fault.change(answer)
        text = json.dumps(answer, separators=(",", ":"))
        return web.Response(text=text, content_type="application/json")

    async def _answered(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._answer(path, body)

    def _answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path in _SCALE_OUT and not self.scale_out:
            raise RefusedError(403, "Scale-out endpoints are disabled.")
        if body.get("model", MODEL) != MODEL:
            raise RefusedError(404, f"The model `{body['model']}` does not exist.")
        answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "/health": lambda _: {},
            "/version": lambda _: {"version": "0.32.0"},
            "/v1/models": lambda _: {"data": [self._card()]},
            "/tokenize": self._tokenize,
            "/detokenize": self._detokenize,
            RENDER: self._render,
            GENERATE: self._generate,
            DERENDER: self._derender,
            CHAT: self.judge.answer,
        }
        if self.labels_weights:
            answers["/weight_info"] = lambda _: {"weight_version": self.weights}
            answers["/is_paused"] = lambda _: {"is_paused": self.paused}
        if path not in answers:
            raise RefusedError(404, "Not Found")
        return answers[path](body)

    def _card(self) -> dict[str, Any]:
        return {
            "id": MODEL,
            "root": self.root,
            "parent": None,
            "max_model_len": self.max_model_len,
        }

    def _detokenize(self, body: dict[str, Any]) -> dict[str, Any]:
        known = [one for one in body["tokens"] if one < self.vocabulary]
        return {"prompt": self.tokenizer.decode(known)}

    def _render(self, body: dict[str, Any]) -> dict[str, Any]:
        text = self.template(
            body["messages"],
            body.get("tools", []),
            body.get("add_generation_prompt", True),
            **body.get("chat_template_kwargs", {}),
        )
        ids = self.tokenizer.encode(text)
        if len(ids) > self.max_model_len:
            raise chat.TemplateError(
                f"This model's maximum context length is {self.max_model_len} tokens."
            )
        return {"token_ids": ids, "sampling_params": {}}

    def _tokenize(self, body: dict[str, Any]) -> dict[str, Any]:
        ids = self.tokenizer.encode(body["prompt"])
        return {"tokens": ids, "token_strs": [self.tokenizer.piece_of(one) for one in ids]}

    def _derender(self, body: dict[str, Any]) -> dict[str, Any]:
        """Reads the calls that `chat.bracketed` writes."""
        text = self.tokenizer.decode(body["generate_response"]["choices"][0]["token_ids"])
        calls = re.findall(r"\[CALL (\w+) (.*?)\]", text)
        message = {
            "content": re.sub(r"\[CALL .*?\]", "", text),
            "reasoning": None,
            "tool_calls": [
                {"function": {"name": name, "arguments": given}} for name, given in calls
            ],
        }
        return {"choices": [{"message": message}]}

    def _generate(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt, params = body["token_ids"], body["sampling_params"]
        if len(prompt) >= self.max_model_len:
            raise BadRequestError(
                f"This model's maximum context length is {self.max_model_len} tokens."
            )
        scored = self.scoring.answer(prompt, params, body.get("cache_salt"))
        if "allowed_token_ids" in params:
            ids = params["allowed_token_ids"]
            values = [{"processed": 0.0, "raw": -3.5, "raw_logits": 11.0}[self.logprobs_mode]]
            return _generated(ids, values, "length", None, scored)
        asked = params.keys() & {"prompt_logprobs", "prompt_logprob_token_ids"}
        reply = Reply() if asked else self.reply_to(prompt)
        ids = reply.token_ids
        finish = reply.finish_reason
        if len(ids) > params["max_tokens"]:
            ids, finish = ids[: params["max_tokens"]], "length"
        values = [logprob_of(len(prompt) + at, one) for at, one in enumerate(ids)]
        return _generated(ids, values, finish, reply.weights or self.weights, scored)


def _generated(
    ids: list[int],
    values: list[float],
    finish_reason: str,
    weights: str | None,
    scored: dict[str, Any],
) -> dict[str, Any]:
    content = [
        {
            "token_id": one,
            "logprob": value,
            "rank": 1,
            "top_logprobs": [
                {"token_id": one, "logprob": value, "rank": 1},
                {"token_id": one + 1, "logprob": value - 1.0, "rank": 2},
            ],
        }
        for one, value in zip(ids, values, strict=True)
    ]
    spans = [{"version": weights, "start": 0, "end": len(ids)}] if weights and ids else None
    choice = {
        "index": 0,
        "finish_reason": finish_reason,
        "stop_reason": None,
        "token_ids": ids,
        "logprobs": {"content": content},
        "weight_versions": spans,
    }
    return {"request_id": "1", **scored, "choices": [choice]}


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"error": {"message": message, "type": "Error", "code": status}}
    return web.json_response(body, status=status, headers=headers)


async def _instead(fault: Fault, request: web.Request) -> web.StreamResponse | None:
    if fault.drop:
        return await _drop(request)
    if fault.status is not None:
        if fault.body is not None:
            return web.json_response(fault.body, status=fault.status)
        return _error(fault.status, fault.message, fault.headers)
    if fault.raw is not None:
        return web.Response(body=fault.raw, content_type="application/json")
    return None


async def _drop(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"choices": [')
    assert request.transport is not None
    request.transport.abort()
    return response
