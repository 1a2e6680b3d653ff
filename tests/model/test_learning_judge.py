"""examples/learning: the judge's server as the operator's own client sees it."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import test_utils

from episode_operator.distill import Decision, Judge
from examples.learning.judge import TaskJudge, application
from tests.fakes import chat
from trainer_bridge.sources.builtin.terminal import divided

TRAIN, HELD_OUT = divided(seed=1)


@pytest.fixture
async def server() -> AsyncIterator[test_utils.TestServer]:
    running = test_utils.TestServer(application(TaskJudge(TRAIN, HELD_OUT)))
    async with running:
        yield running


async def test_votes_and_counts(server: test_utils.TestServer) -> None:
    task = TRAIN[0]
    async with aiohttp.ClientSession() as session:
        judge = Judge(session, str(server.make_url("")).rstrip("/"), "judge", votes=3)
        wrong = chat.hermes("terminal", command=f"cat {task.paths[0]}")
        hinted = await judge.votes(wrong, "cat: No such file or directory", "tool")
        assert {vote.hint for vote in hinted} == {f"Run this command: {task.command}"}
        right = chat.hermes("terminal", command=task.command)
        for turn in (right, "Done.", chat.hermes("terminal", command=HELD_OUT[0].command)):
            declined = await judge.votes(turn, "[no output, exit code 0]", "tool")
            assert [vote.decision for vote in declined] == [Decision.NO] * 3
        async with session.get(server.make_url("/counts")) as answer:
            counts = await answer.json()
    assert counts == {
        "asked": 12,
        "hinted": 3,
        "declined": 9,
        "right": 3,
        "unclear": 3,
        "held_out": 3,
    }


@pytest.mark.parametrize("body", ["[", "{}", '{"messages": [{"content": "Hello?"}]}'])
async def test_what_is_no_question_is_refused(server: test_utils.TestServer, body: str) -> None:
    async with aiohttp.ClientSession() as session:
        url = server.make_url("/v1/chat/completions")
        async with session.post(url, data=body) as answer:
            assert answer.status == 400
            assert (await answer.text()).startswith("not a question to a judge: ")
