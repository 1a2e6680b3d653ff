"""The testbed's policy solves held-out tasks by real tool calls."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from episode_operator.model import Capabilities, Conversation, SamplingConfig, VllmClient, detect
from tests.cluster.vllm import NO_OUTPUT, TOOLS, held_out_tasks, messages_of, model, url

pytestmark = pytest.mark.usefixtures("vllm_url")


@pytest.fixture
async def client() -> AsyncIterator[VllmClient]:
    async with VllmClient.open(url(), model()) as opened:
        yield opened


async def solves(
    client: VllmClient, capabilities: Capabilities, task: dict[str, str], temperature: float
) -> bool:
    """Whether the policy makes the one right call, and then ends by itself."""
    conversation = await Conversation.start(
        client,
        capabilities,
        messages_of(task),
        TOOLS,
        sampling=SamplingConfig(temperature=temperature, max_tokens=96),
    )
    turn = await conversation.sample()
    called = [(call.name, call.arguments.get("command")) for call in turn.calls]
    if called != [("terminal", task["command"])] or turn.malformed:
        return False
    await conversation.append([{"role": "tool", "content": NO_OUTPUT}])
    last = await conversation.sample()
    return not last.calls and not last.malformed and not last.truncated


@pytest.mark.parametrize(
    ("temperature", "count", "needed"), [(0.0, 8, 8), (1.0, 12, 10)], ids=["greedy", "sampled"]
)
async def test_held_out_tasks(
    client: VllmClient, temperature: float, count: int, needed: int
) -> None:
    capabilities = await detect(client)
    tasks = held_out_tasks(count, paraphrase=temperature > 0)
    passed = await asyncio.gather(
        *(solves(client, capabilities, task, temperature) for task in tasks)
    )
    failed = [task["name"] for task, ok in zip(tasks, passed, strict=True) if not ok]
    assert count - len(failed) >= needed, failed
