"""terminal: run a shell command, in the foreground or in the background."""

from pydantic import Field

from episode_operator.agent.tools.base import Arguments, Tool, ToolContext, ToolError
from episode_operator.sandbox.errors import CommandNotStarted, ProcessLimit
from episode_operator.sandbox.memory import check_memory
from episode_operator.sandbox.results import ExecResult

SHELL_STATE = "agent"
"""Directory and exported variables are carried from call to call under this key."""


_SHELL = "/bin/sh"
"""What the runner names when the image has neither bash nor sh, there or elsewhere."""


class TerminalArguments(Arguments):
    """Arguments of terminal."""

    command: str = Field(description="Shell command to run.", min_length=1)
    background: bool = Field(
        default=False, description="Return at once; follow it with the process tool."
    )
    timeout: int | None = Field(
        default=None, description="Seconds until a foreground command is killed.", ge=1
    )


def _not_started(error: CommandNotStarted | ProcessLimit) -> ToolError:
    if error.errno == "ENOENT" and error.path == _SHELL:
        return ToolError(
            "the image has no shell (bash or sh), so terminal cannot run anything in it; "
            "only the tools for files work"
        )
    return ToolError(error.message)


def _ending(result: ExecResult, timeout: int) -> str | None:
    if result.timed_out:
        return f"[killed after {timeout} s]"
    if result.signal is not None:
        return f"[killed by signal {result.signal}]"
    return f"[exit code {result.exit_code}]" if result.exit_code else None


class TerminalTool(Tool[TerminalArguments]):
    """Runs commands in one shell session: `cd` and `export` last from call to call."""

    name = "terminal"
    description = "Run a shell command in the sandbox. Directory and exported variables persist."
    arguments = TerminalArguments

    async def run(self, context: ToolContext, arguments: TerminalArguments) -> str:
        """The command's output, and how it ended unless with exit code 0."""
        if arguments.background:
            return await self._start(context, arguments.command)
        timeout = min(arguments.timeout or context.timeout_seconds, context.timeout_seconds)
        try:
            result = await context.session.exec(
                arguments.command,
                timeout_seconds=timeout,
                request_id=context.request_id,
                user=context.user,
                shell="auto",
                shell_state=SHELL_STATE,
                merge_output=True,
                output_limit_bytes=context.output_limit_bytes,
            )
        except CommandNotStarted as error:
            raise _not_started(error) from error
        check_memory(result, pod_uid=context.session.pod_uid)
        output = result.stdout.text()
        ending = _ending(result, timeout)
        if ending is not None:
            return f"{output.rstrip()}\n{ending}" if output else ending
        return output or "[no output, exit code 0]"

    async def _start(self, context: ToolContext, command: str) -> str:
        name = context.request_id.replace("turn-", "p").replace(".call-", "-")
        try:
            await context.session.start_process(
                name,
                command,
                request_id=context.request_id,
                user=context.user,
                shell="auto",
                shell_state=SHELL_STATE,
                output_limit_bytes=context.output_limit_bytes,
            )
        except (CommandNotStarted, ProcessLimit) as error:
            raise _not_started(error) from error
        return f"started in the background as process {name}"
