"""Tasks in steps: one sandbox, one conversation, a verification after each step."""

import json
import re
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from tests.cluster.episodes import Ended, Episodes, scripted, terminal
from tests.fakes import chat
from tests.fakes.vllm_server import GENERATE, MODEL, FakeVllm, Reply

REWARD = "/logs/verifier/reward.txt"
FIRST = f"grep -q one out && echo 1 > {REWARD} || echo 0 > {REWARD}"
SECOND = f"grep -q two out && grep -q one out && echo 1 > {REWARD} || echo 0.5 > {REWARD}"


def step(name: str, test: str, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "instruction": f"do {name}",
        "script": list(calls),
        "verifier": {"testScript": {"script": test}, "timeoutSeconds": 30},
        **more,
    }


def in_steps(image: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    spec = scripted(image, **more)
    del spec["verifier"], spec["task"]["instruction"], spec["agent"]["script"]
    return {**spec, "steps": list(steps)}


def results(ended: Ended) -> list[tuple[str, str, float | None]]:
    return [(s.name, str(s.verdict), s.reward) for s in ended.result.spec.steps]


async def test_the_sandbox_goes_on_and_the_tests_do_not(episodes: Episodes, busybox: str) -> None:
    steps = (
        step("one", f"sleep 300 & {FIRST}", terminal("echo one > out")),
        step(
            "two",
            SECOND,
            terminal("ls -A /tests /logs/verifier; pidof sleep; echo two >> out"),
            setup={"script": "echo ready >> setup"},
        ),
    )
    ended = await episodes.run("steps", in_steps(busybox, *steps))
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert results(ended) == [("one", "Passed", 1), ("two", "Passed", 1)]
    messages = await episodes.messages(ended)
    assert [m["content"] for m in messages if m["role"] == "user"] == ["do one", "do two"]
    answer = (await episodes.answers(ended))[1]
    assert answer == "/logs/verifier:\n\n/tests:\n", "tests of the first step were left behind"
    assert ended.result.spec.counts.turns == 2
    assert "2 of 2 steps: one 1, two 1" in ended.result.spec.message


async def test_below_the_least_reward_the_walk_ends(episodes: Episodes, busybox: str) -> None:
    steps = (
        step("one", FIRST, terminal("true"), minReward={"reward": 1}),
        step("two", SECOND, terminal("echo two > out")),
    )
    ended = await episodes.run("short", in_steps(busybox, *steps))
    assert ended.verdict == ("Failed", 0, "TestsFailed")
    assert results(ended) == [("one", "Failed", 0)]
    assert "step one has reward 0, below 1" in ended.result.spec.message
    done = next(c for c in ended.episode.status.conditions if c.type == "AgentCompleted")
    assert "below 1" in done.message


@pytest.mark.parametrize(("strategy", "reward"), [("Mean", 0.75), ("Final", 0.5)])
async def test_strategies(episodes: Episodes, busybox: str, strategy: str, reward: float) -> None:
    steps = (
        step("one", FIRST, terminal("echo one > out")),
        step("two", SECOND, terminal("true")),
    )
    ended = await episodes.run("mean", in_steps(busybox, *steps, stepReward=strategy))
    assert ended.verdict == ("Failed", reward, "TestsFailed")


async def test_a_step_without_a_verdict_leaves_none(episodes: Episodes, busybox: str) -> None:
    steps = (
        step("one", FIRST, terminal("echo one > out")),
        step("two", "true", terminal("true")),
    )
    ended = await episodes.run("none", in_steps(busybox, *steps))
    assert ended.verdict == ("NoVerdict", None, "RewardMissing")
    assert results(ended) == [("one", "Passed", 1), ("two", "NoVerdict", None)]


async def test_each_step_has_its_solution(episodes: Episodes, busybox: str) -> None:
    steps = [
        step("one", FIRST, solution={"script": "echo one > out"}),
        step(
            "two",
            SECOND,
            solution={"script": "echo $WORD >> out", "env": [{"name": "WORD", "value": "two"}]},
        ),
    ]
    for made in steps:
        del made["script"]
    spec = {**in_steps(busybox, *steps), "agent": {"kind": "Oracle"}}
    ended = await episodes.run("oracle", spec)
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert ended.result.spec.counts.turns == 2


async def test_a_step_may_be_verified_apart(episodes: Episodes, busybox: str) -> None:
    apart = {
        "testScript": {"script": FIRST},
        "timeoutSeconds": 30,
        "isolation": "SeparateContainer",
    }
    steps = (
        step("one", "", terminal("echo one > out; echo x > /outside"), verifier=apart),
        step("two", SECOND, terminal("test -e /outside && echo two >> out")),
    )
    ended = await episodes.run("apart", in_steps(busybox, *steps))
    assert ended.verdict == ("Passed", 1, "TestsPassed")


@pytest.fixture
async def fake(host_address: str) -> AsyncIterator[FakeVllm]:
    async with FakeVllm.running(host_address) as server:
        yield server


async def test_a_model_goes_on_in_its_conversation(
    episodes: Episodes, busybox: str, fake: FakeVllm
) -> None:
    """One row: the second instruction is inserted after the first step's last turn."""
    fake.replies.extend(
        Reply(text=text)
        for text in (write("echo one > out"), "did one", write("echo two >> out"), "did two")
    )
    steps = [step("one", FIRST), step("two", SECOND)]
    for made in steps:
        del made["script"]
    spec = in_steps(busybox, *steps, model={"endpoint": fake.url, "name": MODEL})
    spec["agent"] = {"kind": "Model", "toolsets": ["terminal"]}
    ended = await episodes.run("model", spec)
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    row = await episodes.row(ended)
    assert set(row.turn[row.mask].tolist()) == {0, 1, 2, 3}
    text = chat.decode(row.tokens.tolist())
    assert re.search(r"did one<\|im_end\|>\n?<\|im_start\|>user\n?do two<\|im_end\|>", text), text
    prompts = [body["token_ids"] for body in fake.bodies(GENERATE)][-4:]
    assert all(after[: len(before)] == before for before, after in pairwise(prompts))


def write(command: str) -> str:
    call = json.dumps({"name": "terminal", "arguments": {"command": command}})
    return f"<tool_call>\n{call}\n</tool_call>"
