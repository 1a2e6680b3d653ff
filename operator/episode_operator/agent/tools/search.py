"""search_files: find lines or names in a tree of files."""

from typing import Literal

from pydantic import Field

from episode_operator.agent.tools.base import Arguments, Tool, ToolContext, ToolError
from episode_operator.sandbox.errors import CommandNotStarted


class SearchFilesArguments(Arguments):
    """Arguments of search_files."""

    pattern: str = Field(
        description="Extended regular expression, or a file name pattern for target files.",
        min_length=1,
    )
    path: str = Field(default=".", description="Folder to search.", min_length=1)
    target: Literal["content", "files"] = Field(
        default="content", description="Search in files' content, or their names."
    )
    limit: int = Field(default=100, description="Most results.", ge=1, le=1000)


class SearchFilesTool(Tool[SearchFilesArguments]):
    """Runs the image's own grep or find."""

    name = "search_files"
    description = "Search files by content or by name."
    arguments = SearchFilesArguments

    async def run(self, context: ToolContext, arguments: SearchFilesArguments) -> str:
        """Matching lines as path:line:text, or matching paths."""
        if arguments.target == "content":
            command = ["grep", "-rnIE", "-e", arguments.pattern, "--", arguments.path]
        else:
            command = ["find", arguments.path, "-name", arguments.pattern]
        try:
            result = await context.session.exec(
                command,
                timeout_seconds=context.timeout_seconds,
                request_id=context.request_id,
                user=context.user,
                output_limit_bytes=context.output_limit_bytes,
            )
        except CommandNotStarted as error:
            needs = f"search_files needs the image's own {command[0]}"
            raise ToolError(f"{needs}: {error.message}") from error
        lines = result.stdout.text().splitlines()
        if result.timed_out:
            raise ToolError(f"stopped after {context.timeout_seconds} s; search a smaller folder")
        if not lines:
            problem = result.stderr.text().strip()
            if problem and result.exit_code not in (0, 1):
                raise ToolError(problem)
            return "nothing found"
        more = len(lines) - arguments.limit
        kept = "\n".join(lines[: arguments.limit])
        return f"{kept}\n[{more} more]" if more > 0 else kept
