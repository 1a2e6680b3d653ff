"""The composite reward: in [0, 1], and the weighted sum of what the contract lists."""

from fractions import Fraction

from episode_operator.verifier.composite import AgentUse, composite

_WEIGHTS = {
    "correctness": Fraction(70, 100),
    "efficiency": Fraction(15, 100),
    "toolUse": Fraction(15, 100),
}
_VALUES = {
    "correctness": (1.0, 0.8, 0.2, 0.1),
    "efficiency": (1.0, 0.8, 0.5, 0.2),
    "toolUse": (1.0, 0.6, 0.3, 0.0),
}
_TOOLS = ("terminal", "process", "read_file", "write_file", "patch", "search_files")


def check(exit_code: int, output: str, use: AgentUse) -> None:
    """Any end of the tests after any use of the sandbox."""
    reward, parts = composite(exit_code, output, use)
    assert 0 <= reward <= 1
    assert parts.keys() == _WEIGHTS.keys()
    assert all(parts[name] in values for name, values in _VALUES.items())
    assert (parts["correctness"] >= 0.8) == (exit_code == 0)
    exact = sum(_WEIGHTS[name] * Fraction(str(parts[name])) for name in _WEIGHTS)
    assert abs(Fraction(reward) - exact) < Fraction(1, 10**8)


def fuzz(data: bytes) -> None:
    """Exit code, turns, allowed turns and a set of tools in a byte each, then the output."""
    if len(data) < 4:
        return
    tools = frozenset(tool for bit, tool in enumerate(_TOOLS) if data[3] >> bit & 1)
    use = AgentUse(turns=data[1], max_turns=max(1, data[2]), tools=tools)
    check(data[0], data[4:].decode(errors="replace"), use)
