"""Runs the tool calls of a turn, in order, and answers every one of them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from episode_operator.agent import metrics
from episode_operator.agent.journal import Record
from episode_operator.agent.report import Progress
from episode_operator.agent.tools.base import Tool, ToolContext, ToolError
from episode_operator.sandbox.session import Session
from episode_operator.tracing import Trace

Toolbox = Mapping[str, Tool[Any]]


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call; `call_id` goes into its answer."""

    call_id: str
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CallRunner:
    """Calls tools within the limits of an Episode; times in seconds."""

    session: Session
    tools: Toolbox
    user: str | None
    timeout_seconds: int
    output_limit_bytes: int
    trace: Trace

    async def run(self, turn: int, calls: Sequence[Call]) -> Record:
        """The answers of a turn's calls as chat messages, and what to count.

        Raises:
            SandboxError: the sandbox failed.
        """
        started = time.monotonic()
        messages, errors = [], 0
        for index, call in enumerate(calls):
            text, failed = await self._measured(turn, index, call)
            errors += failed
            messages.append(
                {"role": "tool", "tool_call_id": call.call_id, "name": call.tool, "content": text}
            )
        return {
            "messages": messages,
            "calls": len(calls),
            "errors": errors,
            "tools": sorted({call.tool for call in calls if call.tool in self.tools}),
            "seconds": round(time.monotonic() - started, 3),
        }

    def forget(self, turn: int, count: int) -> None:
        """Let the runner drop a turn's results; only once the turn is in the journal."""
        ids = [_request_id(turn, index) for index in range(count)]
        self.session.forget(*ids, *(f"{request_id}.write" for request_id in ids))

    async def _measured(self, turn: int, index: int, call: Call) -> tuple[str, bool]:
        """The answer and whether it is an error; what the model wrote goes into no label."""
        tool = call.tool if call.tool in self.tools else metrics.UNKNOWN_TOOL
        with self.trace.span("tool call", index) as span:
            text, failed = await self._answer(_request_id(turn, index), call)
            span.tell({"gen_ai.tool.name": tool, "episode.tool.error": failed})
        metrics.called(tool, failed=failed)
        return text, failed

    async def _answer(self, request_id: str, call: Call) -> tuple[str, bool]:
        tool = self.tools.get(call.tool)
        if tool is None:
            return f"error: there is no tool {call.tool!r}; use {', '.join(self.tools)}", True
        context = ToolContext(
            session=self.session,
            request_id=request_id,
            user=self.user,
            timeout_seconds=self.timeout_seconds,
            output_limit_bytes=self.output_limit_bytes,
        )
        try:
            return await tool.call(context, call.arguments), False
        except ToolError as error:
            return f"error: {error}", True


def _request_id(turn: int, index: int) -> str:
    return f"turn-{turn}.call-{index}"


def count(progress: Progress, answered: Record) -> None:
    """Add a turn's answers, live or recorded, to the progress."""
    progress.tool_calls += answered["calls"]
    progress.tool_errors += answered["errors"]
    progress.tools.update(answered["tools"])
    progress.tool_seconds += answered["seconds"]
