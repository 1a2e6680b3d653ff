"""The composite reward of the testCode contract (contracts.md 3)."""

from dataclasses import dataclass

CORRECTNESS_WEIGHT = 0.7
EFFICIENCY_WEIGHT = 0.15
TOOL_USE_WEIGHT = 0.15

SAID_PASSED, PASSED, ASSERTION_FAILED, OTHER_ERROR = 1.0, 0.8, 0.2, 0.1
"""Correctness: exit 0 and the output says passed; exit 0 without; an assertion fails; else."""

_WRITING_TOOLS = frozenset({"write_file", "patch"})


@dataclass(frozen=True, slots=True)
class AgentUse:
    """What the reward needs to know of the agent: turns taken and allowed, tools called."""

    turns: int
    max_turns: int
    tools: frozenset[str]


def correctness(exit_code: int, output: str) -> float:
    """One of the four values above."""
    said = output.lower()
    if exit_code == 0:
        return SAID_PASSED if "passed" in said else PASSED
    return ASSERTION_FAILED if "assertionerror" in said else OTHER_ERROR


def efficiency(use: AgentUse) -> float:
    """1.0 for at most 3 turns; 0.8 up to half of the turns, 0.5 up to three quarters; else 0.2."""
    if use.turns <= 3:
        return 1.0
    if use.turns <= use.max_turns // 2:
        return 0.8
    if use.turns <= use.max_turns * 3 // 4:
        return 0.5
    return 0.2


def tool_use(use: AgentUse) -> float:
    """1.0 terminal and a writing tool; 0.6 terminal; 0.3 any tool; 0 none."""
    if "terminal" in use.tools:
        return 1.0 if use.tools & _WRITING_TOOLS else 0.6
    return 0.3 if use.tools else 0.0


def composite(exit_code: int, output: str, use: AgentUse) -> tuple[float, dict[str, float]]:
    """The reward in [0, 1] and its components by name."""
    parts = {
        "correctness": correctness(exit_code, output),
        "efficiency": efficiency(use),
        "toolUse": tool_use(use),
    }
    reward = (
        CORRECTNESS_WEIGHT * parts["correctness"]
        + EFFICIENCY_WEIGHT * parts["efficiency"]
        + TOOL_USE_WEIGHT * parts["toolUse"]
    )
    return round(reward, 9), parts
