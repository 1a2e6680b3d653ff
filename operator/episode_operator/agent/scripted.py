"""The scripted agent: a fixed list of tool calls, one a turn. For tests and for debugging tasks."""

from functools import partial
from typing import Any

import orjson

from episode_operator.agent import metrics, prompts
from episode_operator.agent.calls import Call, CallRunner, count
from episode_operator.agent.journal import Journal, Record
from episode_operator.agent.report import AgentReport, Progress
from episode_operator.api.agent import AgentKind
from episode_operator.api.reasons import AgentEnd
from episode_operator.api.step import Step
from episode_operator.tracing import Trace


class ScriptedAgent:
    """One episode's scripted agent."""

    def __init__(
        self,
        *,
        calls: CallRunner,
        journal: Journal,
        system_prompt: str | None,
        max_turns: int,
        trace: Trace,
    ) -> None:
        self._calls = calls
        self._journal = journal
        self._system_prompt = system_prompt
        self._max_turns = max_turns
        self._trace = trace
        self.messages: list[dict[str, Any]] = []
        self.progress = Progress()

    async def run(self, step: Step, instruction: str) -> AgentEnd:
        """Make the step's calls in order; cancel it to end it for time.

        Raises:
            SandboxError: the sandbox failed.
        """
        self.progress.tools.clear()
        self.messages += prompts.opening(self._system_prompt, instruction, first=not self.messages)
        for scripted in step.script[: self._max_turns]:
            turn = self.progress.turns
            call = Call(f"call_{turn}_0", scripted.tool, scripted.arguments)
            self.messages.append(_message(call))
            self.progress.turns += 1
            with self._trace.span("turn", turn) as span:
                answered = await self._journal.once(
                    f"answers-{turn}", partial(self._calls.run, turn, [call])
                )
                if self._journal.live:
                    metrics.TURNS.labels(AgentKind.SCRIPTED).inc()
                    span.tell({"episode.turn": turn})
            self._calls.forget(turn, 1)
            self.messages += answered["messages"]
            count(self.progress, answered)
        done = len(step.script) <= self._max_turns
        return AgentEnd.SCRIPT_COMPLETED if done else AgentEnd.MAX_TURNS

    def report(self, end: AgentEnd | None) -> AgentReport:
        """What was done so far; a scripted agent has no tokens."""
        return AgentReport(end=end, progress=self.progress, messages=self.messages)


def _message(call: Call) -> dict[str, Any]:
    function: Record = {"name": call.tool, "arguments": orjson.dumps(call.arguments).decode()}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": call.call_id, "type": "function", "function": function}],
    }
