"""The tools a model is given, by toolset."""

from collections.abc import Sequence
from typing import Any

from episode_operator.agent.tools.base import Tool, ToolContext, ToolError
from episode_operator.agent.tools.files import PatchTool, ReadFileTool, WriteFileTool
from episode_operator.agent.tools.process import ProcessTool
from episode_operator.agent.tools.search import SearchFilesTool
from episode_operator.agent.tools.terminal import TerminalTool

TOOLSETS: dict[str, tuple[Tool[Any], ...]] = {
    "terminal": (TerminalTool(), ProcessTool()),
    "file": (ReadFileTool(), WriteFileTool(), PatchTool(), SearchFilesTool()),
}


def toolbox(toolsets: Sequence[str]) -> dict[str, Tool[Any]]:
    """Name -> tool of the toolsets, in their order."""
    return {tool.name: tool for toolset in toolsets for tool in TOOLSETS[toolset]}


__all__ = ["TOOLSETS", "Tool", "ToolContext", "ToolError", "toolbox"]
