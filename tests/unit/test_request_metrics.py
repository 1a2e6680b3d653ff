"""What is counted of turns, tool calls and requests, where they are made.

Counted by the real registry; what is outside is played by servers and channels of tests.
"""

from typing import Any

import orjson
import pytest
from prometheus_client import REGISTRY

from episode_operator.agent.calls import Call, CallRunner
from episode_operator.agent.tools import TOOLSETS, Tool, ToolContext, ToolError
from episode_operator.agent.tools.base import Arguments
from episode_operator.controller import metrics
from episode_operator.kube.client import CONFIG_MAPS, ApiError, KubernetesClient
from episode_operator.kube.connection import KubernetesConnection
from episode_operator.model import ModelBadRequest, VllmClient
from episode_operator.sandbox.protocol import join_message
from episode_operator.sandbox.requester import Requester
from episode_operator.tracing import Trace
from tests.fakes.kubernetes_server import KubernetesServer
from tests.fakes.vllm_server import GENERATE, MODEL, FakeVllm, Fault
from tests.fuzz.checks.links import Script, greeted


class Counted:
    """How much the samples of a metric have grown."""

    def __init__(self, name: str) -> None:
        self._name = f"episode_operator_{name}"
        self._before = self._samples()

    def _samples(self) -> dict[tuple[str, ...], float]:
        return {
            tuple(sample.labels.values()): sample.value
            for family in REGISTRY.collect()
            for sample in family.samples
            if sample.name == self._name
        }

    def grown(self) -> dict[tuple[str, ...], float]:
        """By the values of the labels; those that have not grown are left out."""
        grown = {key: value - self._before.get(key, 0) for key, value in self._samples().items()}
        return {key: value for key, value in grown.items() if value}


class Terminal(Tool[Arguments]):
    """Fails the second time."""

    name = "terminal"
    description = "fails"
    arguments = Arguments

    async def run(self, context: ToolContext, arguments: Arguments) -> str:
        if context.request_id.endswith("-1"):
            raise ToolError("no")
        return "yes"


async def test_tool_calls_are_counted_by_tool_and_made_up_names_as_one() -> None:
    calls, errors = Counted("tool_calls_total"), Counted("tool_errors_total")
    runner = CallRunner(None, {"terminal": Terminal()}, None, 10, 1000, Trace())  # type: ignore[arg-type]
    names = ("terminal", "terminal", "made_up", "made up, too", "write_file")
    await runner.run(0, [Call(f"call-{i}", name, {}) for i, name in enumerate(names)])
    assert calls.grown() == {("terminal",): 2, ("unknown_tool",): 3}
    assert errors.grown() == {("terminal",): 1, ("unknown_tool",): 3}
    assert "unknown_tool" not in {tool.name for tools in TOOLSETS.values() for tool in tools}


async def test_requests_to_a_model_server_are_measured_by_what_they_are_for() -> None:
    seconds, errors = Counted("model_request_seconds_count"), Counted("model_request_errors_total")
    async with (
        FakeVllm.running() as server,
        VllmClient.open(server.url, MODEL, retry_budget=4.0) as client,
    ):
        server.faults.append(Fault(path=GENERATE, status=503))
        await client.generate([1, 2], sampling_params={"max_tokens": 8})
        await client.score_prompt([1, 2], params={"prompt_logprobs": 1})
        await client.render([{"role": "user", "content": "hi"}])
        await client.weight_version()
        await client.version()
        server.faults.append(Fault(path=GENERATE, status=400))
        with pytest.raises(ModelBadRequest):
            await client.generate([1, 2], sampling_params={"max_tokens": 8})
    assert seconds.grown() == {("sample",): 1, ("score",): 1, ("render",): 1, ("state",): 1}
    assert errors.grown() == {("sample", "ModelOverloaded"): 1, ("sample", "ModelBadRequest"): 1}


async def test_requests_to_a_runner_are_measured_once_they_are_answered() -> None:
    greeting, encoder = greeted()
    answer = encoder.encode_part(1, True, join_message(orjson.dumps({"result": {}}), b""))
    told = {"error": {"code": "Internal", "message": "no"}}
    failure = encoder.encode_part(2, True, join_message(orjson.dumps(told), b""))
    seconds = Counted("runner_request_seconds_count")
    links = [Script([greeting, answer, failure])]

    async def open_channel() -> Script:
        return links.pop()

    requester = Requester(open_channel, pod_uid="u", reconnect_seconds=0.0, instance=None)
    await requester.start()
    try:
        await requester.request("exec", {}, recorded=False)
        with pytest.raises(Exception, match="no"):
            await requester.request("stat", {}, recorded=False)
    finally:
        await requester.stop()
    assert seconds.grown() == {("exec",): 1, ("stat",): 1}


async def test_writes_to_the_api_server_are_counted_and_reads_are_not() -> None:
    async def headers() -> dict[str, str]:
        return {}

    def body(name: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": "default"}}

    writes = Counted("api_writes_total")
    async with (
        KubernetesServer.running() as server,
        KubernetesClient(
            KubernetesConnection(server.url, None, headers), on_write=metrics.api_write
        ) as client,
    ):
        await client.create(CONFIG_MAPS, body("a"))
        with pytest.raises(ApiError):
            await client.create(CONFIG_MAPS, body("a"))
        await client.apply(CONFIG_MAPS, body("a"), manager="me")
        await client.get(CONFIG_MAPS, "default", "a")
        await client.list(CONFIG_MAPS, "default")
        refusals = [(503, "away")]
        server.refuse = lambda *_: refusals.pop() if refusals else None
        await client.delete(CONFIG_MAPS, "default", "a")
        await client.delete(CONFIG_MAPS, "default", "a")
    assert writes.grown() == {
        ("configmaps", "create", "Written"): 1,
        ("configmaps", "create", "Conflict"): 1,
        ("configmaps", "apply", "Written"): 1,
        ("configmaps", "delete", "Failed"): 1,
        ("configmaps", "delete", "Written"): 1,
        ("configmaps", "delete", "Absent"): 1,
    }
