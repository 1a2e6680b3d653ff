"""process: list, poll and kill background processes."""

from typing import Literal

from pydantic import Field

from episode_operator.agent.tools.base import Arguments, Tool, ToolContext, ToolError
from episode_operator.sandbox.errors import ProcessNotFound
from episode_operator.sandbox.results import ProcessStatus


class ProcessArguments(Arguments):
    """Arguments of process."""

    action: Literal["list", "poll", "kill"] = Field(description="What to do.")
    process: str | None = Field(default=None, description="Name that terminal gave; not for list.")


def _line(status: ProcessStatus) -> str:
    state = "running" if status.running else f"exited with code {status.exit_code}"
    return f"{status.process}: {state}, {status.duration_seconds:.0f} s: {status.command}"


class ProcessTool(Tool[ProcessArguments]):
    """Follows what terminal started in the background."""

    name = "process"
    description = "List, poll (output so far and state) or kill background processes."
    arguments = ProcessArguments

    async def run(self, context: ToolContext, arguments: ProcessArguments) -> str:
        """One line for each process, or the output and state of one."""
        session = context.session
        if arguments.action == "list":
            return "\n".join(map(_line, await session.list_processes())) or "no processes"
        if arguments.process is None:
            raise ToolError(f"process must be given to {arguments.action}")
        try:
            if arguments.action == "kill":
                status = await session.kill_process(
                    arguments.process, request_id=context.request_id
                )
                return _line(status)
            polled = await session.poll_process(
                arguments.process, limit_bytes=context.output_limit_bytes
            )
        except ProcessNotFound as error:
            raise ToolError(error.message) from error
        dropped = (
            f"[{polled.dropped_bytes} earlier bytes dropped]\n" if polled.dropped_bytes else ""
        )
        return f"{_line(polled.status)}\n{dropped}{polled.data.decode(errors='replace')}"
