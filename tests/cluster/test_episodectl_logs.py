"""`episodectl logs` and `ui` on the real cluster, through forwarded ports of the operator."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tests.cluster import kubectl
from tests.cluster.command_line import episodectl, on_a_terminal
from tests.cluster.episodes import Episodes, scripted, terminal
from tests.testbed import stack

OPERATOR = ("--operator-namespace", stack.NAMESPACE)
"""Which one is meant: other tests run operators too."""
HELD = "while [ ! -e /workspace/go ]; do sleep 0.2; done; echo released"
"""A command that runs until the test lets it go."""


async def let_go(episodes: Episodes) -> None:
    """End the command that is held."""
    [pod] = await episodes.pods("held")
    touch = ("--", "touch", "/workspace/go")
    name = pod["metadata"]["name"]
    await kubectl.check("exec", name, "-n", episodes.namespace, "-c", "sandbox", *touch)


@asynccontextmanager
async def program(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """episodectl at work; interrupted at the end, as by Ctrl-C, if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "episodectl", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        await process.communicate()


async def message(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    async with asyncio.timeout(120):
        line = await process.stdout.readline()
    assert line, "it ended"
    found: dict[str, Any] = json.loads(line)
    return found


async def test_turns_as_they_happen(episodes: Episodes, image: str) -> None:
    await episodes.create(
        "held", scripted(image, terminal("echo begun"), terminal(HELD), terminal("echo last"))
    )
    await episodes.until_running("held")
    async with program("logs", "held", "-f", "-n", episodes.namespace, *OPERATOR) as following:
        said = [await message(following) for _ in range(5)]
        assert [one["role"] for one in said] == ["system", "user", "assistant", "tool", "assistant"]
        assert "begun" in said[3]["content"]
        assert HELD in said[4]["tool_calls"][0]["function"]["arguments"]
        code, output, errors = await episodectl("logs", "held", "-n", episodes.namespace, *OPERATOR)
        assert (code, errors) == (0, "")
        assert [json.loads(line) for line in output.splitlines()] == said
        await let_go(episodes)
        said += [await message(following) for _ in range(3)]
        assert "released" in said[5]["content"] and "last" in said[7]["content"]
        assert await asyncio.wait_for(following.wait(), 120) == 0
    ended = await episodes.finish("held")
    assert await episodes.messages(ended) == said
    shown = await asyncio.to_thread(on_a_terminal, "logs", "held", "-n", episodes.namespace)
    assert "released" in shown and "\x1b[" in shown


async def test_the_page_of_an_episode_at_work_and_of_its_result(
    episodes: Episodes, image: str
) -> None:
    await episodes.create("held", scripted(image, terminal("echo begun"), terminal(HELD)))
    await episodes.until_running("held")
    async with program("ui", "--no-open", *OPERATOR) as serving, aiohttp.ClientSession() as http:
        assert serving.stdout is not None
        async with asyncio.timeout(120):
            url = (await serving.stdout.readline()).decode().strip()
        page = f"{url}namespaces/{episodes.namespace}/episodes/held"

        async def shown(path: str, status: int = 200) -> str:
            async with http.get(path) as answer:
                assert answer.status == status
                return await answer.text()

        assert "held" in await shown(f"{url}?namespace={episodes.namespace}")
        async with asyncio.timeout(120):
            while "begun" not in await shown(page):
                await asyncio.sleep(0.5)
        assert "Running" in await shown(page) and "data-follow" in await shown(page)
        await let_go(episodes)
        await episodes.finish("held")
        over = await shown(page)
        assert "Passed" in over and "released" in over and "data-follow" not in over
        assert "neither" in await shown(f"{page}-not", 404)


async def test_an_operator_that_is_not_there_is_told(episodes: Episodes, image: str) -> None:
    await episodes.create("held", scripted(image, terminal(HELD)))
    where = ("-n", episodes.namespace, "--operator-namespace", episodes.namespace)
    code, _, errors = await episodectl("logs", "held", *where)
    assert code == 2 and f"no operator runs in namespace {episodes.namespace}" in errors
