"""read_file, write_file and patch: files of the sandbox, without a shell."""

from pydantic import Field

from episode_operator.agent.tools.base import Arguments, Tool, ToolContext, ToolError
from episode_operator.sandbox.errors import FileError

_TEXT_LIMIT_BYTES = 8 << 20


class ReadFileArguments(Arguments):
    """Arguments of read_file."""

    path: str = Field(description="Path of the file.", min_length=1)
    offset: int = Field(default=1, description="First line, from 1.", ge=1)
    limit: int = Field(default=500, description="Most lines.", ge=1, le=10_000)


class WriteFileArguments(Arguments):
    """Arguments of write_file."""

    path: str = Field(description="Path of the file; missing folders are made.", min_length=1)
    content: str = Field(description="The whole content.")


class PatchArguments(Arguments):
    """Arguments of patch."""

    path: str = Field(description="Path of the file.", min_length=1)
    old_string: str = Field(description="Text to replace; must occur once.", min_length=1)
    new_string: str = Field(description="Text to put there.")
    replace_all: bool = Field(default=False, description="Replace every occurrence.")


async def _read(context: ToolContext, path: str) -> str:
    try:
        content = await context.session.read_file(
            path, limit_bytes=_TEXT_LIMIT_BYTES, user=context.user
        )
    except FileError as error:
        raise ToolError(error.message) from error
    if not content.end:
        raise ToolError(f"{path} is larger than {_TEXT_LIMIT_BYTES} bytes; use terminal")
    try:
        return content.data.decode()
    except UnicodeDecodeError as error:
        raise ToolError(f"{path} is not text in UTF-8; use terminal") from error


def _clip(lines: list[str], limit_bytes: int) -> list[str]:
    kept, size = [], 0
    for line in lines:
        size += len(line.encode())
        if size > limit_bytes:
            break
        kept.append(line)
    return kept


class ReadFileTool(Tool[ReadFileArguments]):
    """Reads lines of a text file."""

    name = "read_file"
    description = "Read a text file."
    arguments = ReadFileArguments

    async def run(self, context: ToolContext, arguments: ReadFileArguments) -> str:
        """The lines, and how many there are beyond them."""
        lines = (await _read(context, arguments.path)).splitlines(keepends=True)
        first = arguments.offset - 1
        if lines and first >= len(lines):
            raise ToolError(f"{arguments.path} has {len(lines)} lines")
        wanted = lines[first : first + arguments.limit]
        kept = _clip(wanted, context.output_limit_bytes)
        if wanted and not kept:
            cut = wanted[0].encode()[: context.output_limit_bytes].decode(errors="ignore")
            return f"{cut}\n[line {arguments.offset} goes on; use terminal for such long lines]"
        last = first + len(kept)
        more = f"\n[lines {arguments.offset}-{last} of {len(lines)}]" if last < len(lines) else ""
        return "".join(kept) + more or "[empty file]"


class WriteFileTool(Tool[WriteFileArguments]):
    """Writes a whole file."""

    name = "write_file"
    description = "Write a file; what was there before is replaced."
    arguments = WriteFileArguments

    async def run(self, context: ToolContext, arguments: WriteFileArguments) -> str:
        """What was written, as the pod's disk has it. Repeating it writes the same."""
        try:
            data = arguments.content.encode()
        except UnicodeEncodeError as error:
            raise ToolError(f"content is not valid Unicode: {error.reason}") from error
        try:
            written = await context.session.write_file(
                arguments.path, data, parents=True, user=context.user
            )
        except FileError as error:
            raise ToolError(error.message) from error
        return f"wrote {written.size_bytes} bytes to {arguments.path}"


class PatchTool(Tool[PatchArguments]):
    """Replaces text in a file."""

    name = "patch"
    description = "Replace text in a file."
    arguments = PatchArguments

    async def run(self, context: ToolContext, arguments: PatchArguments) -> str:
        """Patch once, also if a restarted operator makes the call again."""
        session, write_id = context.session, f"{context.request_id}.write"
        done = f"patched {arguments.path}"
        if any(kept.request_id == write_id for kept in await session.kept_requests()):
            return done
        text = await _read(context, arguments.path)
        found = text.count(arguments.old_string)
        if found == 0:
            raise ToolError(f"old_string does not occur in {arguments.path}")
        if found > 1 and not arguments.replace_all:
            raise ToolError(
                f"old_string occurs {found} times in {arguments.path}; "
                "make it longer or set replace_all"
            )
        patched = text.replace(arguments.old_string, arguments.new_string).encode()
        if len(patched) > _TEXT_LIMIT_BYTES:
            raise ToolError(f"{arguments.path} would pass {_TEXT_LIMIT_BYTES} bytes; use terminal")
        try:
            await session.write_file(
                arguments.path, patched, request_id=write_id, user=context.user
            )
        except FileError as error:
            raise ToolError(error.message) from error
        return done
