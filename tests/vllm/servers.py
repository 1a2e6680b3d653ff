"""vLLM's own front end for each of the published chat templates; only sampling is made up."""

import json
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from episode_operator.model import VllmClient
from tests.fakes.jinja import MODELS, Model
from tests.fakes.vllm_server import GENERATE, MODEL, FakeVllm, RefusedError
from tests.testbed.paths import CACHE
from tests.testbed.vllm import SERVER_ENVIRONMENT, ensure_vllm_environment

WORKER = Path(__file__).with_name("worker.py")
ENVIRONMENT = {
    "VLLM_LOGGING_LEVEL": "CRITICAL",
    "VLLM_SERVER_DEV_MODE": "0",  # what it adds asks the engine, and there is none
}


@dataclass(frozen=True, kw_only=True)
class Served:
    """A model as vLLM serves it."""

    name: str
    model: Model
    tool_parser: str
    reasoning_parser: str | None = None


def _model(name: str) -> Model:
    return next(model for model in MODELS if model.name == name)


THINKING = "Llama 3, its reasoning read by the server"
SERVED = (
    Served(name="Qwen2.5", model=_model("Qwen2.5"), tool_parser="hermes"),
    Served(name="Qwen3", model=_model("Qwen3"), tool_parser="hermes", reasoning_parser="qwen3"),
    Served(
        name="Qwen3 Thinking",
        model=_model("Qwen3 Thinking"),
        tool_parser="hermes",
        reasoning_parser="qwen3",
    ),
    Served(name="Qwen3 Coder", model=_model("Qwen3 Coder"), tool_parser="qwen3_coder"),
    Served(name="Llama 3", model=_model("Llama 3"), tool_parser="llama3_json"),
    Served(
        name=THINKING,
        model=_model("Llama 3 with reasoning"),
        tool_parser="llama3_json",
        reasoning_parser="deepseek_r1",
    ),
    Served(name="Llama 3 pythonic", model=_model("Llama 3 pythonic"), tool_parser="pythonic"),
    Served(name="ChatML", model=_model("ChatML"), tool_parser="hermes"),
    Served(name="Gemma 3", model=_model("Gemma 3"), tool_parser="pythonic"),
)


@contextmanager
def front_ends() -> Iterator[dict[str, str]]:
    """URLs of all of SERVED, from one process."""
    asked = [
        {
            "name": one.name,
            "template": one.model.source,
            "specials": one.model.specials,
            "bos": one.model.bos,
            "end": one.model.end,
            "tool_parser": one.tool_parser,
            "reasoning_parser": one.reasoning_parser,
        }
        for one in SERVED
    ]
    python = ensure_vllm_environment(CACHE, print)
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [str(python), str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **SERVER_ENVIRONMENT, **ENVIRONMENT},
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps({"folder": folder, "models": asked}) + "\n")
            process.stdin.flush()
            lines = iter(process.stdout.readline, "")
            told = next((line for line in lines if line.startswith("{")), None)
            assert told is not None, "vLLM's front ends did not start"
            yield json.loads(told)
        finally:
            process.kill()


class FrontEnd(FakeVllm):
    """Samples what it is told to; all else is answered by the real vLLM at `real`."""

    real = ""

    async def _answered(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == GENERATE:
            return self._answer(path, body)
        method = "POST" if body else "GET"
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.real + path, json=body or None) as response,
        ):
            answer = await response.json()
            if response.status != 200:
                raise RefusedError(response.status, str(answer))
            told: dict[str, Any] = answer
            return told


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[tuple[FrontEnd, VllmClient]]:
    """The model at a URL of `front_ends`, and a client of it."""
    async with (
        FrontEnd.running() as server,
        VllmClient.open(server.url, MODEL, request_timeout=60.0, retry_budget=5.0) as client,
    ):
        server.real = url
        yield server, client
