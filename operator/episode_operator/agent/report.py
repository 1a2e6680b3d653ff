"""What an agent leaves behind for the result."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from episode_operator.api.reasons import AgentEnd, MalformedCallKind
from episode_operator.api.result import ModelReference, WeightSpan


@dataclass(slots=True)
class Progress:
    """Counts and times of an agent at work; times in seconds."""

    turns: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    malformed_calls: Counter[MalformedCallKind] = field(default_factory=Counter)
    model_seconds: float = 0.0
    tool_seconds: float = 0.0
    tools: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class AgentReport:
    """The agent's end, its conversation, and for a model its training row.

    `end` is None when the sandbox or the model server failed while it acted.
    `row` is a results.payload.TokenRow made of the model's token buffer, or None for agents that
    sample nothing.
    """

    end: AgentEnd | None
    progress: Progress
    messages: list[dict[str, Any]]
    row: Any = None
    weight_versions: list[WeightSpan] = field(default_factory=list)
    model: ModelReference | None = None
