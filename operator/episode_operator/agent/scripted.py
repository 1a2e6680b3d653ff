"""The scripted agent: a fixed list of tool calls, one a turn. For tests and for debugging tasks."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import orjson

from episode_operator.agent.calls import Call, CallRunner, count
from episode_operator.agent.journal import Journal, Record
from episode_operator.agent.report import AgentReport, Progress
from episode_operator.api.agent import ToolCall
from episode_operator.api.reasons import AgentEnd


class ScriptedAgent:
    """One episode's scripted agent."""

    def __init__(
        self,
        *,
        script: Sequence[ToolCall],
        calls: CallRunner,
        journal: Journal,
        opening: list[dict[str, Any]],
        max_turns: int,
    ) -> None:
        self._script = script
        self._calls = calls
        self._journal = journal
        self._max_turns = max_turns
        self._messages = list(opening)
        self._progress = Progress()

    async def run(self) -> AgentEnd:
        """Make the calls in order; cancel it to end it for time.

        Raises:
            SandboxError: the sandbox failed.
        """
        for turn, scripted in enumerate(self._script[: self._max_turns]):
            call = Call(f"call_{turn}_0", scripted.tool, scripted.arguments)
            self._messages.append(_message(call))
            self._progress.turns = turn + 1
            answered = await self._journal.once(
                f"answers-{turn}", partial(self._calls.run, turn, [call])
            )
            self._calls.forget(turn, 1)
            self._messages += answered["messages"]
            count(self._progress, answered)
        done = len(self._script) <= self._max_turns
        return AgentEnd.SCRIPT_COMPLETED if done else AgentEnd.MAX_TURNS

    def report(self, end: AgentEnd) -> AgentReport:
        """What was done so far; a scripted agent has no tokens."""
        return AgentReport(end=end, progress=self._progress, messages=self._messages)


def _message(call: Call) -> dict[str, Any]:
    function: Record = {"name": call.tool, "arguments": orjson.dumps(call.arguments).decode()}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": call.call_id, "type": "function", "function": function}],
    }
