"""The model's loop without a sandbox: limits on old weights, and restarts of the operator.

Every turn is cut off at its length, so the loop goes on without a tool.
"""

import asyncio
from typing import Any

import orjson
import pytest

from episode_operator.agent.calls import CallRunner
from episode_operator.agent.journal import AGENT_ENDED, AgentEndedError, Journal, Record
from episode_operator.agent.model_agent import ModelAgent
from episode_operator.agent.staleness import StalenessLimit
from episode_operator.api.agent import Sampling, Staleness
from episode_operator.api.reasons import AgentEnd
from episode_operator.api.result import ModelReference
from episode_operator.api.step import Step
from episode_operator.model import (
    ModelChanged,
    SamplingConfig,
    SpecialTokens,
    Stale,
    VllmClient,
    WeightsUnlabeled,
    detect,
)
from episode_operator.sandbox.session import Session
from episode_operator.tracing import Trace
from tests.fakes.journal_store import JournalStore
from tests.fakes.vllm_server import GENERATE, MODEL, RENDER, FakeVllm, Fault, Reply

STEP = Step.model_validate(
    {
        "name": "only",
        "instruction": "Go on.",
        "verifier": {"testScript": {"script": "true"}, "timeoutSeconds": 1},
    }
)


class SlowStore(JournalStore):
    """A journal that takes the entry of one step only when it may."""

    def __init__(self, step: str) -> None:
        super().__init__()
        self.step = step
        self.appending, self.go_on = asyncio.Event(), asyncio.Event()

    async def journal_append(self, index: int, data: bytes) -> None:
        if orjson.loads(data)["step"] == self.step:
            self.appending.set()
            await self.go_on.wait()
        await super().journal_append(index, data)


async def no_sandbox() -> Any:
    raise AssertionError("no tool is called here")


async def agent(
    client: VllmClient, store: JournalStore, limit: dict[str, int] | None
) -> ModelAgent:
    """An agent as a starting operator makes it."""
    capabilities = await detect(client)
    return ModelAgent(
        client=client,
        capabilities=capabilities,
        specials=SpecialTokens(client),
        sampling=SamplingConfig(max_tokens=256),
        reference=ModelReference(
            name=MODEL, logprobs_mode=capabilities.logprobs_mode, sampling=Sampling()
        ),
        calls=CallRunner(Session(no_sandbox), {}, None, 1, 1024, Trace()),
        journal=await Journal.load(store),
        system_prompt=None,
        max_turns=4,
        staleness=StalenessLimit(Staleness(**limit), client) if limit else None,
        trace=Trace(),
    )


def turns(server: FakeVllm, *labels: str) -> None:
    """The next turns, each cut off; after each the server has the next label."""
    for label in labels:

        def update(_answer: dict[str, Any], label: str = label) -> None:
            server.weights = label

        server.replies.append(Reply(text="and", finish_reason="length"))
        server.faults.append(Fault(path=GENERATE, change=update))


def sampled(server: FakeVllm) -> int:
    bodies = server.bodies(GENERATE)
    return sum("allowed_token_ids" not in body["sampling_params"] for body in bodies)


async def run(
    server: FakeVllm, client: VllmClient, limit: dict[str, int] | None, *labels: str
) -> AgentEnd:
    """Run an agent on a server that has labels[0], then after each turn the next one."""
    server.labels_weights, server.weights = True, labels[0]
    one = await agent(client, JournalStore(), limit)
    turns(server, *labels[1:])
    return await one.run(STEP, "Go on.")


@pytest.mark.parametrize(
    ("versions", "labels", "turns_sampled"),
    [
        (0, ("1", "1", "1", "1"), None),
        (0, ("1", "2"), 1),
        (1, ("1", "2", "2", "2"), None),
        (1, ("1", "2", "3"), 2),
        (1, ("1", "3"), 1),
        (2, ("1", "3", "3", "2"), None),
        (1, ("5", "default", "6", "6"), None),
        (1, ("5", "default", "7"), 2),
        (0, ("3", "2", "2", "2"), None),
        (1, ("default", "a", "b"), 2),
        (2, ("default", "a", "b", "b"), None),
        (0, ("a", "b"), 1),
        (0, ("a", "a", "a", "a"), None),
    ],
)
async def test_versions(
    server: FakeVllm,
    client: VllmClient,
    versions: int,
    labels: tuple[str, ...],
    turns_sampled: int | None,
) -> None:
    """None: to the end. The number of turns that were sampled before the limit was passed."""
    running = run(server, client, {"versions": versions}, *labels)
    if turns_sampled is None:
        turns(server)
        assert await running in (AgentEnd.MAX_TURNS, AgentEnd.NATURAL_FINISH)
        return
    with pytest.raises(Stale, match=r"model\.staleness\.versions"):
        await running
    assert sampled(server) == turns_sampled


async def test_without_a_limit_any_age_will_do(server: FakeVllm, client: VllmClient) -> None:
    assert await run(server, client, None, "1", "9", "17") == AgentEnd.NATURAL_FINISH


async def test_updates_within_one_turn_count(server: FakeVllm, client: VllmClient) -> None:
    """The end of a turn is judged too: this one was the last."""
    server.labels_weights, server.weights = True, "1"
    one = await agent(client, JournalStore(), {"versions": 1})

    def two_updates(answer: dict[str, Any]) -> None:
        spans = [("1", 0, 2), ("2", 2, 3), ("3", 3, 6)]
        answer["choices"][0]["weight_versions"] = [
            {"version": version, "start": start, "end": end} for version, start, end in spans
        ]

    server.replies.append(Reply(text="Hello"))
    server.faults.append(Fault(path=GENERATE, change=two_updates))
    with pytest.raises(Stale):
        await one.run(STEP, "Go on.")
    assert [span.version for span in one.report(None).weight_versions] == ["1", "2", "3"]


async def test_labels_that_other_episodes_saw_count(server: FakeVllm, client: VllmClient) -> None:
    server.labels_weights, server.weights = True, "a"
    one = await agent(client, JournalStore(), {"versions": 1})
    server.replies.append(Reply(text="and", finish_reason="length"))

    def two_updates(_answer: dict[str, Any]) -> None:
        for label in ("a", "b", "c"):
            client.versions.see(label)
        server.weights = "c"

    server.faults.append(Fault(path=GENERATE, change=two_updates))
    with pytest.raises(Stale, match="2 updates"):
        await one.run(STEP, "Go on.")


@pytest.mark.parametrize(
    ("label", "stale"), [("1", False), ("2", True), (None, True)], ids=["same", "new", "unlabeled"]
)
async def test_seconds(
    server: FakeVllm, client: VllmClient, label: str | None, stale: bool
) -> None:
    """Old is what has newer weights; where nobody tells, what has passed the time."""
    server.labels_weights, server.weights = label is not None, label and "1"
    one = await agent(client, JournalStore(), {"seconds": 1})

    def update(_answer: dict[str, Any]) -> None:
        server.weights = label

    server.replies.append(
        Reply(text="and", finish_reason="length", weights="1" if label else "default")
    )
    server.faults.append(Fault(path=GENERATE, delay=1.2, change=update))
    if stale:
        with pytest.raises(Stale, match=r"model\.staleness\.seconds"):
            await one.run(STEP, "Go on.")
    else:
        assert await one.run(STEP, "Go on.") == AgentEnd.NATURAL_FINISH
    assert sampled(server) == (1 if stale else 2)


async def test_versions_need_labels(server: FakeVllm, client: VllmClient) -> None:
    one = await agent(client, JournalStore(), {"versions": 3})
    with pytest.raises(WeightsUnlabeled, match="VLLM_SERVER_DEV_MODE=1"):
        await one.run(STEP, "Go on.")
    assert sampled(server) == 0


async def test_age_goes_on_across_restarts(server: FakeVllm, client: VllmClient) -> None:
    server.labels_weights, server.weights = True, "a"
    store = JournalStore()
    one = await agent(client, store, {"versions": 1})
    turns(server, "b")
    server.faults.append(Fault(path=GENERATE, status=400))
    with pytest.raises(Exception, match="refused the request"):
        await one.run(STEP, "Go on.")
    assert len(store.entries) == 3  # prompt, turn-0, answers-0
    server.weights = "c"  # while no operator ran; "b" was last seen by nobody's turn
    async with VllmClient.open(server.url, MODEL) as restarted:
        two = await agent(restarted, store, {"versions": 1})
        turns(server, "d")
        with pytest.raises(Stale, match="2 updates"):
            await two.run(STEP, "Go on.")


async def test_an_episode_does_not_go_on_with_another_model(
    server: FakeVllm, client: VllmClient
) -> None:
    """The server was replaced while no operator ran: its ids may mean other text."""
    store = JournalStore()
    one = await agent(client, store, None)
    turns(server, "")
    server.faults.append(Fault(path=GENERATE, status=400))
    with pytest.raises(Exception, match="refused the request"):
        await one.run(STEP, "Go on.")
    server.root = "/models/another"
    two = await agent(client, store, None)
    with pytest.raises(ModelChanged, match="/models/another"):
        await two.run(STEP, "Go on.")
    server.root = "/models/policy"
    three = await agent(client, store, None)
    assert await three.run(STEP, "Go on.") == AgentEnd.NATURAL_FINISH
    assert three.progress.turns == 2


async def test_a_report_names_the_logprobs_that_were_recorded(
    server: FakeVllm, client: VllmClient
) -> None:
    """The operator was restarted after the agent's end, and the server too, with other options."""
    store = JournalStore()
    assert await (await agent(client, store, None)).run(STEP, "Go on.") == AgentEnd.NATURAL_FINISH
    server.logprobs_mode = "raw"
    again = await agent(client, store, None)
    assert await again.run(STEP, "Go on.") == AgentEnd.NATURAL_FINISH
    model = again.report(AgentEnd.NATURAL_FINISH).model
    assert model is not None and model.logprobs_mode == "processed"


CALLS = '<tool_call>{"name": "nosuch", "arguments": {}}</tool_call><tool_call>no</tool_call>'


async def replayed(client: VllmClient, store: JournalStore) -> ModelAgent:
    """The agent that an operator makes anew of a journal, after its time had ended."""

    async def ended() -> Record:
        return {}

    journal = await Journal.load(store)
    for entry in map(orjson.loads, store.entries):
        await journal.once(entry["step"], ended)
    await journal.once(AGENT_ENDED, ended)
    one = await agent(client, store, None)
    with pytest.raises(AgentEndedError):
        await one.run(STEP, "Go on.")
    return one


@pytest.mark.parametrize(("step", "tool_calls"), [("turn-0", 0), ("answers-0", 1)])
async def test_an_end_while_a_step_is_recorded_counts_as_its_replay_does(
    server: FakeVllm, client: VllmClient, step: str, tool_calls: int
) -> None:
    server.replies.append(Reply(text=CALLS))
    store = SlowStore(step)
    one = await agent(client, store, None)
    running = asyncio.create_task(one.run(STEP, "Go on."))
    await store.appending.wait()
    running.cancel()
    await asyncio.sleep(0)
    store.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert one.progress == (await replayed(client, store)).progress
    assert (one.progress.turns, one.progress.tool_calls) == (1, tool_calls)
    assert one.progress.malformed_calls.total() == 1


async def test_an_end_before_a_step_is_recorded_counts_nothing_of_it(
    server: FakeVllm, client: VllmClient
) -> None:
    """The tools have answered, and their answers are being rendered."""

    def slow_render(_answer: dict[str, Any]) -> None:
        server.faults.append(Fault(path=RENDER, delay=1.5))

    server.replies.append(Reply(text=CALLS))
    store = JournalStore()
    one = await agent(client, store, None)
    server.faults.append(Fault(path=GENERATE, change=slow_render))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.8):
            await one.run(STEP, "Go on.")
    assert [orjson.loads(entry)["step"] for entry in store.entries] == ["prompt", "turn-0"]
    assert one.progress == (await replayed(client, store)).progress
    assert (one.progress.turns, one.progress.tool_calls) == (1, 0)
