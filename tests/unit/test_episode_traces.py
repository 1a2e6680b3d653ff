"""The trace of an Episode as agents and the controller tell it: turns, calls, attempts, its end."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
import pytest
from opentelemetry.trace import StatusCode

from episode_operator.agent.calls import CallRunner
from episode_operator.agent.journal import Journal
from episode_operator.agent.model_agent import ModelAgent
from episode_operator.agent.scripted import ScriptedAgent
from episode_operator.api.agent import Sampling
from episode_operator.api.distillation import DistillationState
from episode_operator.api.reasons import AgentEnd, NoVerdictReason, Phase, Verdict
from episode_operator.api.result import DistillationStatus, ModelReference
from episode_operator.api.step import Step
from episode_operator.controller.traces import EpisodeTrace, distillation_attributes
from episode_operator.lifecycle.outcome import Failure, Scored
from episode_operator.lifecycle.pods import view
from episode_operator.model import (
    ModelBadRequest,
    SamplingConfig,
    SpecialTokens,
    VllmClient,
    detect,
)
from episode_operator.sandbox.session import Session
from episode_operator.tracing import Trace
from tests.fakes.journal_store import JournalStore
from tests.fakes.vllm_server import GENERATE, MODEL, FakeVllm, Fault, Reply
from tests.unit import builders
from tests.unit.spans import KeptSpans, attributes, ids

VERIFIER = {"testScript": {"script": "true"}, "timeoutSeconds": 1}
STEP = Step.model_validate({"name": "only", "instruction": "Go on.", "verifier": VERIFIER})
SECRET = "swordfish"
CALL = f'<tool_call>{{"name": "{SECRET}", "arguments": {{"x": "{SECRET}"}}}}</tool_call>'
CREATED = 1_795_946_400.0


async def no_sandbox() -> Any:
    raise AssertionError("no tool is called here")


def calls(trace: Trace) -> CallRunner:
    return CallRunner(Session(no_sandbox), {}, None, 1, 1024, trace)


async def agent(client: VllmClient, store: JournalStore, trace: Trace) -> ModelAgent:
    """An agent as a starting operator makes it."""
    capabilities = await detect(client)
    return ModelAgent(
        client=client,
        capabilities=capabilities,
        specials=SpecialTokens(client),
        sampling=SamplingConfig(max_tokens=256),
        reference=ModelReference(name=MODEL, logprobs_mode="processed", sampling=Sampling()),
        calls=calls(trace),
        journal=await Journal.load(store),
        system_prompt=None,
        max_turns=4,
        staleness=None,
        trace=trace,
    )


async def test_a_turn_is_told_once_by_two_operators() -> None:
    """The second one finds the first turn whole, and the second one sampled but not answered."""
    store, first, second = JournalStore(), KeptSpans(), KeptSpans()
    before, after = (EpisodeTrace(kept.export, builders.UID) for kept in (first, second))
    async with FakeVllm.running() as server, VllmClient.open(server.url, MODEL) as client:
        server.replies.extend([Reply(text=CALL), Reply(text=CALL)])
        one = await agent(client, store, before.attempt(0))
        server.faults.extend(Fault(path=GENERATE) for _ in range(2))
        server.faults.append(Fault(path=GENERATE, status=400))
        with pytest.raises(ModelBadRequest):
            await one.run(STEP, "Go on.")
        assert first.names() == ["tool call", "turn", "tool call", "turn"]
        last = orjson.loads(store.entries.pop())
        assert last["step"] == "answers-1"
        sampled = orjson.loads(store.entries[-1])["value"]
        server.faults.clear()
        end = await (await agent(client, store, after.attempt(0))).run(STEP, "Go on.")
    assert end == AgentEnd.NATURAL_FINISH
    assert second.names() == ["tool call", "turn", "turn"]
    again, natural = [span for span in second.all() if span.name == "turn"]
    lost = [span for span in first.all() if span.name == "turn"][1]
    assert ids(again) == ids(lost)
    assert again.start_time == lost.start_time == round(sampled["at"] * 1e9)
    assert attributes(again) == attributes(lost)
    assert ids(second.one("tool call"))[2] == ids(again)[1]
    told = attributes(natural)
    assert told["episode.turn"] == 2 and told["gen_ai.request.model"] == MODEL
    assert told["gen_ai.usage.output_tokens"] == len(Reply(text="Done.").token_ids)
    used = attributes(again)
    assert isinstance(used["gen_ai.usage.input_tokens"], int)
    assert isinstance(told["gen_ai.usage.input_tokens"], int)
    assert told["gen_ai.usage.input_tokens"] > used["gen_ai.usage.input_tokens"] > 0


async def test_nothing_that_a_model_wrote_is_told() -> None:
    kept = KeptSpans()
    trace = EpisodeTrace(kept.export, builders.UID).attempt(0)
    async with FakeVllm.running() as server, VllmClient.open(server.url, MODEL) as client:
        server.replies.append(Reply(text=CALL))
        await (await agent(client, JournalStore(), trace)).run(STEP, SECRET)
    assert attributes(kept.one("tool call")) == {
        "gen_ai.tool.name": "unknown_tool",
        "episode.tool.error": True,
    }
    assert SECRET not in "".join(span.to_json() for span in kept.all())


async def test_a_turn_that_fails_has_the_reason_of_its_attempt() -> None:
    kept = KeptSpans()
    trace = EpisodeTrace(kept.export, builders.UID)
    async with FakeVllm.running() as server, VllmClient.open(server.url, MODEL) as client:
        one = await agent(client, JournalStore(), trace.attempt(0))
        server.faults.append(Fault(path=GENERATE, status=400, message=SECRET))
        with pytest.raises(ModelBadRequest):
            await one.run(STEP, "Go on.")
    assert kept.names() == []
    failure = Failure(NoVerdictReason.MODEL_BAD_REQUEST, SECRET)
    trace.attempt_ended(builders.episode(), view(builders.pod()), failure)
    assert kept.names() == ["turn", "attempt"]
    for span in kept.all():
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description == "ModelBadRequest"
    assert SECRET not in "".join(span.to_json() for span in kept.all())


async def test_turns_of_a_script_are_told_once() -> None:
    store, kept = JournalStore(), KeptSpans()
    step = Step.model_validate(
        {
            "name": "only",
            "instruction": "Go on.",
            "verifier": VERIFIER,
            "script": [{"tool": "terminal"}, {"tool": "terminal"}],
        }
    )
    for _ in range(2):
        trace = EpisodeTrace(kept.export, builders.UID).attempt(0)
        one = ScriptedAgent(
            calls=calls(trace),
            journal=await Journal.load(store),
            system_prompt=None,
            max_turns=4,
            trace=trace,
        )
        await one.run(step, "Go on.")
    assert kept.names() == ["tool call", "turn"] * 2
    assert [attributes(span)["episode.turn"] for span in kept.all()[1::2]] == [0, 1]


def test_an_attempt_begins_with_its_pod() -> None:
    kept = KeptSpans()
    trace, pod = EpisodeTrace(kept.export, builders.UID), view(builders.pod())
    trace.attempt_ended(builders.episode(), pod, Scored(Verdict.PASSED, 0.5, "TestsPassed"))
    span = kept.one("attempt")
    assert span.start_time == int(CREATED * 1e9)
    assert span.status.status_code is StatusCode.UNSET
    assert attributes(span) == {
        "episode.attempt": 0,
        "k8s.pod.name": "hello-a0",
        "k8s.pod.uid": "pod-uid",
        "episode.verdict": "Passed",
        "episode.reason": "TestsPassed",
        "episode.reward": 0.5,
    }


def test_an_attempt_without_a_pod_has_no_span() -> None:
    kept = KeptSpans()
    failure = Failure(NoVerdictReason.INVALID_TASK, "no such host")
    EpisodeTrace(kept.export, builders.UID).attempt_ended(builders.episode(), None, failure)
    assert kept.names() == []


@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.NO_VERDICT])
def test_an_episode_tells_what_came_of_it(verdict: Verdict) -> None:
    kept, episode = KeptSpans(), builders.episode()
    scored = verdict is Verdict.FAILED
    changes = {
        "phase": Phase.FINISHED,
        "verdict": verdict,
        "reason": "TestsFailed" if scored else "OOMKilled",
        "reward": 0.0 if scored else None,
        "turns": 3,
        "attempt": 1,
    }
    episode = episode.model_copy(update={"status": episode.status.model_copy(update=changes)})
    EpisodeTrace(kept.export, builders.UID).finished(episode)
    span, told = kept.one("episode"), attributes(kept.one("episode"))
    assert ids(span)[0] == UUID(builders.UID).int and ids(span)[2] is None
    assert span.start_time == int(CREATED * 1e9)
    assert span.status.description == (None if scored else "OOMKilled")
    assert told["episode.uid"] == builders.UID and told["episode.attempts"] == 2
    assert ("episode.reward" in told) is scored
    assert told["episode.verdict"] == verdict


def test_a_distillation_tells_its_turns_by_outcome() -> None:
    told = DistillationStatus(
        state=DistillationState.COMPLETED,
        message=SECRET,
        positions=7,
        outcomes={"Scored": 2, "JudgeFailed": 1},
        teacher="teacher",
        teacher_tokens=90,
        completed_at=datetime(2026, 11, 30, tzinfo=UTC),
    )
    kept = KeptSpans()
    with EpisodeTrace(kept.export, builders.UID).distillation() as span:
        span.tell(distillation_attributes(told))
    assert attributes(kept.one("distillation")) == {
        "episode.distillation.state": "Completed",
        "episode.distillation.positions": 7,
        "episode.distillation.teacher_tokens": 90,
        "episode.distillation.turns.Scored": 2,
        "episode.distillation.turns.JudgeFailed": 1,
        "gen_ai.request.model": "teacher",
    }
