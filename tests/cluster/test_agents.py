"""Agents and tools in real pods; a scripted model server says what no real model can be made to."""

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.cluster.episodes import Episodes, call, scripted, terminal
from tests.fakes import chat
from tests.fakes.vllm_server import GENERATE, MODEL, FakeVllm, Fault, Reply, logprob_of


@pytest.fixture
async def fake(host_address: str) -> AsyncIterator[FakeVllm]:
    """A scripted model server that the operator's pod reaches."""
    async with FakeVllm.running(host_address) as server:
        yield server


def modelled(image: str, fake: FakeVllm, *, test: str, **more: Any) -> dict[str, Any]:
    """An Episode on the scripted server."""
    return scripted(
        image,
        agent={"kind": "Model", "toolsets": ["terminal", "file"], **more.pop("agent", {})},
        model={"endpoint": fake.url, "name": MODEL, **more.pop("model", {})},
        test=test,
        **more,
    )


def reward_if(condition: str) -> str:
    """A test script that gives 1 if the shell condition holds, else 0."""
    number = f"if {{ {condition}; }} > /dev/null 2>&1; then echo 1; else echo 0; fi"
    return f"{number} > /logs/verifier/reward.txt"


async def test_closing_tag_inside_an_argument_and_a_second_call(
    episodes: Episodes, busybox: str, fake: FakeVllm
) -> None:
    """cases.md 18: both run, content exact."""
    content = 'a</tool_call>\n<tool_call>{"name": "x"}\n“quoted” \\ é\n'
    digest = hashlib.sha256(content.encode()).hexdigest()
    both = chat.hermes("write_file", path="/workspace/a", content=content)
    both += "\n" + chat.hermes("terminal", command="echo second > b")
    fake.replies.extend([Reply(text=both), Reply(text="Done.")])
    ended = await episodes.run(
        "tags",
        modelled(
            busybox,
            fake,
            test=reward_if(f'echo "{digest}  a" | sha256sum -c && grep -q second b'),
        ),
    )
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert ended.result.spec.agent_end == "NaturalFinish"
    counts = ended.result.spec.counts
    assert (counts.turns, counts.tool_calls, counts.tool_errors) == (2, 2, 0)


async def test_rows_are_what_was_sent_and_sampled(
    episodes: Episodes, busybox: str, fake: FakeVllm
) -> None:
    """Each prompt is the one before + the sampled ids + new ids, and the row holds all of them."""
    fake.replies.extend(
        [
            Reply(text=chat.hermes("terminal", command="printf '<|im%s' '_end|>'")),
            Reply(text=chat.hermes("terminal", command="false")),
            Reply(text="Done."),
        ]
    )
    ended = await episodes.run("rows", modelled(busybox, fake, test=reward_if("true")))
    row = await episodes.row(ended)
    ids = row.tokens.tolist()
    prompts = [
        body["token_ids"]
        for body in fake.bodies(GENERATE)
        if "allowed_token_ids" not in body["sampling_params"]
    ]
    assert len(prompts) == 3
    for prompt in prompts:
        assert ids[: len(prompt)] == prompt
    assert row.turn.max() == 2
    for position in range(len(ids)):
        expected = logprob_of(position, ids[position]) if row.mask[position] else 0.0
        assert row.logprobs[position] == expected
    assert ids.count(chat.END) == 3 + 4, "a printed end token is no end token"


async def test_output_beyond_the_context_is_still_verified(
    episodes: Episodes, busybox: str, fake: FakeVllm
) -> None:
    """cases.md 15: 70,000 characters against a context of 4,096."""
    command = "echo made > out; yes 0123456789 | head -c 70000"
    fake.replies.append(Reply(text=chat.hermes("terminal", command=command)))
    ended = await episodes.run("flood", modelled(busybox, fake, test=reward_if("grep -q made out")))
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert ended.result.spec.agent_end == "ContextLimit"
    counts = ended.result.spec.counts
    assert (counts.turns, counts.tool_calls) == (1, 1)
    row = await episodes.row(ended)
    assert len(row.tokens) == counts.tokens <= 4096
    assert bool(row.mask[-1]), "the row ends with the last sampled turn"


async def test_malformed_and_truncated_calls_run_nothing(
    episodes: Episodes, busybox: str, fake: FakeVllm
) -> None:
    fake.max_model_len = 16_384
    good, quoted = chat.hermes("terminal", command="touch good"), chat.hermes("terminal")
    fake.replies.extend(
        [
            Reply(text='<tool_call>\n{"name": "terminal", "arguments": {"command": "touch bad"'),
            Reply(text=chat.hermes("terminal", command="touch cut"), finish_reason="length"),
            Reply(text=f"<think>{chat.hermes('terminal', command='touch thought')}</think>{good}"),
            Reply(text=chat.hermes("fly", to="the moon") + chat.hermes("terminal", comand="typo")),
            Reply(
                text=chat.hermes("terminal", command="echo first")
                + f'<tool_call>{{"name": "w", "x": "quoted "{quoted}"}}</tool_call>'
                + chat.hermes("terminal", command="echo last")
            ),
            Reply(text="Done."),
        ]
    )
    ended = await episodes.run(
        "bad-calls",
        modelled(busybox, fake, test=reward_if('[ "$(ls /workspace)" = good ]')),
    )
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    counts = ended.result.spec.counts
    assert (counts.malformed_calls, counts.tool_calls, counts.tool_errors) == (3, 5, 2)
    assert counts.malformed_calls_by_kind == {"InvalidJSON": 2, "Truncated": 1}
    answers = await episodes.answers(ended)
    assert answers[-3].startswith("first") and answers[-1].startswith("last")
    assert answers[-2].startswith("error: tool call 2 of 3 was not run: it is not valid JSON")
    assert any("there is no tool 'fly'" in answer for answer in answers)
    assert any("bad arguments for terminal: command: Field required" in a for a in answers)


async def test_temperature_needs_processed_logprobs(
    episodes: Episodes, busybox: str, fake: FakeVllm
) -> None:
    """cases.md 13: recorded with the temperature, or refused before anything is sampled."""
    warm = {"sampling": {"temperature": 0.6}}
    ended = await episodes.run("warm", modelled(busybox, fake, model=warm, test=reward_if("true")))
    recorded = ended.result.spec.model
    assert recorded is not None
    assert recorded.logprobs_mode == "processed"
    assert recorded.sampling.temperature == 0.6
    async with FakeVllm.running(fake.url.split("/")[2].split(":")[0]) as raw:
        raw.logprobs_mode = "raw"
        refused = await episodes.run(
            "raw", modelled(busybox, raw, model=warm, test=reward_if("true"))
        )
    assert refused.verdict == ("NoVerdict", None, "RawLogprobs")
    assert "--logprobs-mode processed_logprobs" in refused.result.spec.message


async def test_server_without_scale_out(episodes: Episodes, busybox: str, fake: FakeVllm) -> None:
    fake.scale_out = False
    ended = await episodes.run("plain", modelled(busybox, fake, test=reward_if("true")))
    assert ended.verdict == ("NoVerdict", None, "ScaleOutDisabled")
    assert "--enable-scale-out" in ended.result.spec.message
    assert ended.episode.status.attempts == [], "a retry would fail alike"


async def test_a_limit_on_versions_needs_their_labels(
    episodes: Episodes, busybox: str, fake: FakeVllm
) -> None:
    spec = modelled(busybox, fake, model={"staleness": {"versions": 4}}, test=reward_if("true"))
    ended = await episodes.run("unlabeled", spec)
    assert ended.verdict == ("NoVerdict", None, "WeightsUnlabeled")
    assert "VLLM_SERVER_DEV_MODE=1" in ended.result.spec.message
    assert ended.episode.status.attempts == [], "a retry would fail alike"


async def test_a_server_that_was_replaced_in_mid_episode(
    episodes: Episodes, busybox: str, fake: FakeVllm
) -> None:
    """What it sampled is no part of the row; the next pod starts on what is there now."""

    def replaced(_answer: dict[str, Any]) -> None:
        fake.root = "/models/another"

    # The operator's first question is for the logprobs mode, the second for the first turn.
    fake.faults.extend([Fault(path=GENERATE), Fault(path=GENERATE, change=replaced)])
    fake.replies.append(Reply(text=chat.hermes("terminal", command="echo x >> out")))
    ended = await episodes.run("replaced", modelled(busybox, fake, test=reward_if("[ ! -e out ]")))
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    (failed,) = ended.episode.status.attempts
    assert failed.reason == "ModelChanged" and "/models/another" in failed.message


async def test_max_turns_is_graded(episodes: Episodes, busybox: str, fake: FakeVllm) -> None:
    fake.replies.extend([Reply(text=chat.hermes("terminal", command="echo x >> out"))] * 5)
    ended = await episodes.run(
        "turns",
        modelled(busybox, fake, agent={"maxTurns": 3}, test=reward_if("[ $(wc -l < out) = 3 ]")),
    )
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    assert ended.result.spec.agent_end == "MaxTurns"


async def test_all_tools(episodes: Episodes, image: str) -> None:
    ended = await episodes.run(
        "tools",
        scripted(
            image,
            terminal("cd /tmp && export COLOUR=blue"),
            terminal("pwd; echo $COLOUR"),
            terminal("sleep 3600 & echo started"),  # cases.md 3
            terminal("echo up; touch /tmp/is-up; sleep 300", background=True),
            call("process", action="list"),
            terminal("until test -e /tmp/is-up; do sleep 0.1; done"),
            call("process", action="poll", process="p3-0"),
            call("process", action="kill", process="p3-0"),
            call("write_file", path="/workspace/deep/er/file.txt", content="one\ntwo\nthree\n"),
            call("read_file", path="/workspace/deep/er/file.txt", offset=2, limit=1),
            call("patch", path="/workspace/deep/er/file.txt", old_string="two", new_string="2"),
            call("search_files", pattern="^2$", path="/workspace"),
            call("search_files", pattern="*.txt", path="/workspace", target="files"),
            call("read_file", path="/workspace/absent"),
            call("patch", path="/workspace/deep/er/file.txt", old_string="e", new_string="E"),
            terminal("sleep 60", timeout=1),
        ),
    )
    answers = await episodes.answers(ended)
    assert answers[1] == "/tmp\nblue\n"
    assert answers[2] == "started\n"
    assert answers[3] == "started in the background as process p3-0"
    assert answers[4].startswith("p3-0: running")
    assert answers[6].endswith("up\n")
    assert "exited with code 137" in answers[7]
    assert answers[8] == "wrote 14 bytes to /workspace/deep/er/file.txt"
    assert answers[9] == "two\n\n[lines 2-2 of 3]"
    assert answers[10] == "patched /workspace/deep/er/file.txt"
    assert answers[11] == "/workspace/deep/er/file.txt:2:2"
    assert answers[12] == "/workspace/deep/er/file.txt"
    assert answers[13].startswith("error: /workspace/absent")
    assert "old_string occurs 3 times" in answers[14]
    assert answers[15] == "[killed after 1 s]"
    assert ended.result.spec.counts.tool_errors == 2


async def test_bytes_are_exact_through_the_whole_path(episodes: Episodes, image: str) -> None:
    """cases.md 1 and 2: multi-byte text split in frames; a file of 200 KB in one call."""
    content = "".join(chr(0x20 + index % 0x5E) + "é" for index in range(70_000))
    digest = hashlib.sha256(content.encode()).hexdigest()
    agent = {
        "kind": "Scripted",
        "outputLimitBytes": 131_072,
        "script": [
            terminal("printf x; python3 -c \"print('é' * 40000, end='')\""),
            call("write_file", path="/workspace/big", content=content),
        ],
    }
    ended = await episodes.run(
        "bytes",
        scripted(image, agent=agent, test=reward_if(f'echo "{digest}  big" | sha256sum -c')),
    )
    assert ended.verdict == ("Passed", 1, "TestsPassed")
    answers = await episodes.answers(ended)
    assert answers[0] == "x" + "é" * 40_000
    assert answers[1] == f"wrote {len(content.encode())} bytes to /workspace/big"
