"""`episodectl show` on the real cluster, with token texts from the real model server."""

import asyncio
import json
from typing import Any

import pytest

from tests.cluster.command_line import episodectl, on_a_terminal
from tests.cluster.episodes import PASSING_TEST, Ended, Episodes, scripted
from tests.cluster.vllm import held_out_tasks


@pytest.fixture(scope="module")
async def ended(shared: Episodes, image: str, model: dict[str, object]) -> Ended:
    """An Episode in which the real policy made one call."""
    (task,) = held_out_tasks(1)
    spec = scripted(
        image,
        agent={"kind": "Model", "toolsets": ["terminal"], "maxTurns": 4},
        model={**model, "sampling": {"temperature": 0, "maxTokens": 96}},
        task={"image": image, "instruction": task["instruction"], "workdir": "/workspace"},
        test=PASSING_TEST,
    )
    return await shared.run("hello", spec)


async def test_lines_of_json_with_texts_through_the_api_server(
    shared: Episodes, ended: Ended
) -> None:
    code, output, errors = await episodectl("show", "hello", "-n", shared.namespace)
    assert (code, errors) == (0, "")
    head, *turns = [json.loads(line) for line in output.splitlines()]
    assert (head["verdict"], head["reward"], head["reason"]) == ("Passed", 1, "TestsPassed")
    assert head["result"] == ended.result.metadata["name"]
    tokens: list[dict[str, Any]] = [token for turn in turns for token in turn["tokens"]]
    row = await shared.row(ended)
    assert [token["id"] for token in tokens] == row.tokens.tolist()
    assert [token["sampled"] for token in tokens] == row.mask.tolist()
    text = "".join(token["text"] for token in tokens)
    assert "<tool_call>" in text
    messages = await shared.messages(ended)
    instruction = next(one["content"] for one in messages if one["role"] == "user")
    assert instruction in text


async def test_the_view_of_a_terminal(
    shared: Episodes, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    shown = await asyncio.to_thread(on_a_terminal, "show", "hello", "-n", shared.namespace)
    assert "Passed" in shown and "turn 0" in shown and "\x1b[" in shown
    table = await asyncio.to_thread(
        on_a_terminal, "show", ended.result.metadata["name"], "-n", shared.namespace, "--tokens"
    )
    row = await shared.row(ended)
    assert all(str(token) in table for token in row.tokens[row.mask].tolist())


async def test_what_is_not_there(shared: Episodes) -> None:
    code, output, errors = await episodectl("show", "nobody", "-n", shared.namespace)
    assert (code, output) == (2, "")
    assert errors.startswith(f"namespace {shared.namespace} has neither")
