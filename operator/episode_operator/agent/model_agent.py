"""The model's loop: sample a turn, run its tool calls, append the answers, until it is done.

Every sampled turn is in the journal before its tools run, so a restarted operator neither samples
a turn twice nor runs a command twice.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from episode_operator.agent import metrics, prompts
from episode_operator.agent.calls import Call, CallRunner, count
from episode_operator.agent.journal import Journal, Record
from episode_operator.agent.report import AgentReport, Progress
from episode_operator.agent.staleness import StalenessLimit
from episode_operator.api.reasons import AgentEnd, MalformedCallKind
from episode_operator.api.result import ModelReference, WeightSpan
from episode_operator.api.step import Step
from episode_operator.model import (
    Capabilities,
    ContextLimit,
    Conversation,
    ModelChanged,
    SampledTurn,
    SamplingConfig,
    SpecialTokens,
    VllmClient,
)
from episode_operator.tracing import Attribute, Span, Trace

Messages = list[dict[str, Any]]


class ModelAgent:
    """One episode's model agent."""

    def __init__(
        self,
        *,
        client: VllmClient,
        capabilities: Capabilities,
        specials: SpecialTokens,
        sampling: SamplingConfig,
        reference: ModelReference,
        calls: CallRunner,
        journal: Journal,
        system_prompt: str | None,
        max_turns: int,
        staleness: StalenessLimit | None,
        trace: Trace,
    ) -> None:
        self._client = client
        self._capabilities = capabilities
        self._specials = specials
        self._sampling = sampling
        self._reference = reference
        self._calls = calls
        self._journal = journal
        self._system_prompt = system_prompt
        self._max_turns = max_turns
        self._staleness = staleness
        self._trace = trace
        self._served = capabilities.identity
        self._opening: list[dict[str, Any]] = []
        self.progress = Progress()
        self._conversation: Conversation | None = None

    async def run(self, step: Step, instruction: str) -> AgentEnd:
        """Act on a step until the agent ends by itself; cancel it to end it for time.

        The conversation goes on from step to step. Where a step ended in the middle of a turn
        there is no place for another instruction: the agent has ended, and what it left is graded.

        Raises:
            ModelError, SandboxError: the model server or the sandbox failed.
        """
        self.progress.tools.clear()
        first = self.progress.turns
        try:
            if not await self._instruct(step, instruction):
                return AgentEnd.AGENT_TIMEOUT
            for turn in range(first, first + self._max_turns):
                with self._trace.span("turn", turn) as span:
                    end = await self._turn(turn, span)
                if end is not None:
                    return end
        except ContextLimit:
            return AgentEnd.CONTEXT_LIMIT
        return AgentEnd.MAX_TURNS

    async def _turn(self, turn: int, span: Span) -> AgentEnd | None:
        """Sample a turn and answer it; the agent's end, if it was the last one."""
        recorded = await self._journal.once(f"turn-{turn}", self._sample, replay=self._replay_turn)
        sampled, end = self._sampled(), None
        span.start = recorded.get("at", span.start)  # an earlier release kept none
        told = self._told(sampled, recorded["modelSeconds"])
        if not _wants_answer(sampled):
            end = AgentEnd.NATURAL_FINISH
        else:
            answered = await self._journal.once(
                f"answers-{turn}", partial(self._answer, sampled), replay=self._replay_answers
            )
            self._calls.forget(turn, len(sampled.calls))
            if answered["contextFull"]:
                end = AgentEnd.CONTEXT_LIMIT
        if self._journal.live:
            span.tell(told)
        return end

    def _told(self, sampled: SampledTurn, model_seconds: float) -> dict[str, Attribute]:
        """What a trace tells of the turn that was sampled last."""
        count = len(sampled.token_ids)
        return {
            "episode.turn": sampled.index,
            "episode.turn.finish_reason": sampled.finish_reason,
            "episode.turn.model_seconds": model_seconds,
            "episode.turn.tool_calls": len(sampled.calls),
            "episode.turn.malformed_calls": len(sampled.malformed) + sampled.cut_calls,
            "gen_ai.request.model": self._reference.name,
            "gen_ai.usage.input_tokens": self._live().token_count - count,
            "gen_ai.usage.output_tokens": count,
        }

    async def _instruct(self, step: Step, instruction: str) -> bool:
        """Open the conversation, or go on in it; False where that is not possible."""
        if self._conversation is None:
            self._opening = prompts.opening(self._system_prompt, instruction)
            await self._journal.once("prompt", self._start, replay=self._restore)
            return True
        if self._conversation.pending is None:
            return False
        messages = prompts.opening(None, instruction, first=False)
        await self._journal.once(
            f"prompt-{step.name}", partial(self._go_on, messages), replay=self._replay
        )
        return True

    async def _go_on(self, messages: list[dict[str, Any]]) -> Record:
        await self._live().append(messages)
        return {"records": self._live().new_records().decode()}

    @property
    def messages(self) -> Messages:
        """The conversation so far."""
        return self._opening if self._conversation is None else self._conversation.messages

    def report(self, end: AgentEnd | None) -> AgentReport:
        """What was gathered so far."""
        conversation = self._conversation
        if conversation is None:
            return AgentReport(end, self.progress, self.messages, model=self._reference)
        row = conversation.row()
        return AgentReport(
            end=end,
            progress=self.progress,
            messages=self.messages,
            row=row,
            weight_versions=[
                WeightSpan(version=span.version, start=span.start, end=span.end)
                for span in row.versions
            ],
            model=self._reference,
        )

    async def _start(self) -> Record:
        self._conversation = await Conversation.start(
            self._client,
            self._capabilities,
            self._opening,
            [tool.schema() for tool in self._calls.tools.values()],
            sampling=self._sampling,
            specials=self._specials,
        )
        records = self._conversation.new_records().decode()
        return {"records": records, "served": self._served}

    def _restore(self, recorded: Record) -> None:
        self._served = recorded["served"]
        sampled_with = {"logprobs_mode": self._served["logprobsMode"]}
        self._reference = self._reference.model_copy(update=sampled_with)
        self._conversation = Conversation.restore(
            self._client,
            self._capabilities,
            recorded["records"].encode(),
            sampling=self._sampling,
            specials=self._specials,
        )

    def _live(self) -> Conversation:
        assert self._conversation is not None  # the first step made or restored it
        return self._conversation

    def _sampled(self) -> SampledTurn:
        pending = self._live().pending
        assert pending is not None  # the step before sampled or replayed it
        return pending

    def _replay(self, recorded: Record) -> None:
        self._live().replay(recorded["records"].encode())
        self.progress.model_seconds += recorded.get("modelSeconds", 0.0)

    def _replay_turn(self, recorded: Record) -> None:
        self._replay(recorded)
        self._count_turn(self._sampled())
        if self._staleness is not None:
            self._staleness.replay(recorded["staleness"])

    def _replay_answers(self, recorded: Record) -> None:
        self._replay(recorded)
        count(self.progress, recorded)

    def _count_turn(self, sampled: SampledTurn) -> None:
        self.progress.turns = sampled.index + 1
        self.progress.malformed_calls.update(bad.kind for bad in sampled.malformed)
        self.progress.malformed_calls[MalformedCallKind.TRUNCATED] += sampled.cut_calls

    async def _sample(self) -> Record:
        if self._served != self._capabilities.identity:
            raise ModelChanged(
                "the model server was started anew with other options while no operator ran: "
                f"{self._capabilities.identity}, not {self._served}"
            )
        if self._staleness is not None:
            await self._staleness.check()
        prompt = self._live().token_count
        began, started = time.time(), time.monotonic()
        sampled = await self._live().sample()
        seconds = round(time.monotonic() - started, 3)
        metrics.sampled(prompt=prompt, sampled=len(sampled.token_ids))
        self.progress.model_seconds += seconds
        self._count_turn(sampled)
        records = self._live().new_records().decode()
        record = {"records": records, "at": began, "modelSeconds": seconds}
        if self._staleness is None:
            return record
        self._staleness.sampled(sampled, started=began)
        return {**record, "staleness": self._staleness.record()}

    async def _answer(self, sampled: SampledTurn) -> Record:
        calls = [
            Call(sampled.call_id(number), call.name, call.arguments)
            for number, call in enumerate(sampled.calls)
        ]
        answered = await self._calls.run(sampled.index, calls)
        messages = _with_corrections(answered.pop("messages"), sampled)
        try:
            await self._live().append(messages)
        except ContextLimit:
            full, records = True, ""
        else:
            full, records = False, self._live().new_records().decode()
        count(self.progress, answered)
        return {**answered, "contextFull": full, "records": records}


def _wants_answer(sampled: SampledTurn) -> bool:
    return bool(sampled.calls or sampled.malformed or sampled.truncated)


def _with_corrections(answers: Sequence[dict[str, Any]], sampled: SampledTurn) -> Messages:
    """The answers to a turn, in the order of its calls: also what the model is told of calls that
    could not be read, and of a turn that was cut off.
    """
    messages = list(answers)
    count = len(sampled.calls) + len(sampled.malformed)
    for number, bad in enumerate(sampled.malformed, start=len(sampled.calls)):
        told = f"error: tool call {bad.position + 1} of {count} was not run: {bad.problem}"
        answer = {"role": "tool", "tool_call_id": sampled.call_id(number), "content": told}
        messages.insert(bad.position, answer)
    if sampled.truncated:
        told = (
            "Your last answer was cut off at the token limit and no tool call in it was run. "
            "Go on, in shorter steps."
        )
        messages.append({"role": "user", "content": told})
    return messages
