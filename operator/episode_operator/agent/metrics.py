"""Prometheus metrics of agents at work; every label has a closed set of values."""

from prometheus_client import Counter

from episode_operator.api.agent import AgentKind

UNKNOWN_TOOL = "unknown_tool"
"""In place of a name that a model made up."""

TURNS = Counter("episode_operator_turns", "Turns that agents took.", ["agent"])
_TOKENS = Counter(
    "episode_operator_tokens",
    "Tokens of models' turns: of the prompts they were sampled after, and sampled.",
    ["kind"],
)
_TOOL_CALLS = Counter("episode_operator_tool_calls", "Tool calls that agents made.", ["tool"])
_TOOL_ERRORS = Counter(
    "episode_operator_tool_errors", "Of these, answered with an error.", ["tool"]
)


def sampled(*, prompt: int, sampled: int) -> None:
    """Count a model's turn by its tokens."""
    TURNS.labels(AgentKind.MODEL).inc()
    _TOKENS.labels("prompt").inc(prompt)
    _TOKENS.labels("sampled").inc(sampled)


def called(tool: str, *, failed: bool) -> None:
    """Count a tool call; `tool` is a tool's name or UNKNOWN_TOOL."""
    _TOOL_CALLS.labels(tool).inc()
    if failed:
        _TOOL_ERRORS.labels(tool).inc()
