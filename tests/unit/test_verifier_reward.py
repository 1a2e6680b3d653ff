"""Reward files are read strictly (cases.md 9)."""

from collections.abc import Callable

import pytest

from episode_operator.verifier.composite import AgentUse, composite
from episode_operator.verifier.reward import InvalidRewardError, parse_json, parse_number


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1.0), ("0\n", 0.0), (" 0.5 \n", 0.5), ("-1e-3", -0.001), (".5", 0.5), ("1.", 1.0)],
)
def test_one_finite_number_is_a_reward(text: str, value: float) -> None:
    assert parse_number(text.encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "nan",
        "inf",
        "-Infinity",
        "1_0",
        "1\n1",
        "1 1",
        "0x1",
        "1e999",
        "true",
        "１",
        "1,0",
    ],
)
def test_anything_else_is_no_verdict(text: str) -> None:
    with pytest.raises(InvalidRewardError):
        parse_number(text.encode())


@pytest.mark.parametrize(
    ("text", "reward", "components"),
    [
        ('{"reward": 1}', 1.0, {"reward": 1.0}),
        ('{"accuracy": 0.25}', 0.25, {"accuracy": 0.25}),
        ('{"reward": 0.5, "style": 1}', 0.5, {"reward": 0.5, "style": 1.0}),
    ],
)
def test_reward_json(text: str, reward: float, components: dict[str, float]) -> None:
    assert parse_json(text.encode()) == (reward, components)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "[]",
        "{}",
        '{"reward": NaN}',
        '{"reward": 1e999}',
        '{"reward": true}',
        '{"reward": "1"}',
        '{"reward": null}',
        '{"a": 1, "b": 2}',
        '{"reward": 1, "b": Infinity}',
        "[" * 100_000,
        '{"reward": ' + "9" * 5_000 + "}",
        '{"reward": ' + "9" * 400 + "}",
        '{"reward": 1, "' + "x" * 129 + '": 1}',
        '{"reward": 1, ' + ", ".join(f'"{n}": 1' for n in range(64)) + "}",
    ],
)
def test_any_other_reward_json_is_no_verdict(text: str) -> None:
    with pytest.raises(InvalidRewardError):
        parse_json(text.encode())


@pytest.mark.parametrize("parse", [parse_number, parse_json])
def test_what_is_not_utf_8_is_no_verdict(parse: Callable[[bytes], object]) -> None:
    with pytest.raises(InvalidRewardError, match="UTF-8"):
        parse(b"1\xff")


@pytest.mark.parametrize(
    ("exit_code", "output", "use", "reward"),
    [
        (0, "All tests passed!", AgentUse(2, 32, frozenset({"terminal", "write_file"})), 1.0),
        (0, "", AgentUse(3, 32, frozenset({"terminal", "patch"})), 0.7 * 0.8 + 0.3),
        (1, "AssertionError", AgentUse(16, 32, frozenset({"terminal"})), 0.14 + 0.12 + 0.09),
        (1, "NameError: x", AgentUse(24, 32, frozenset({"read_file"})), 0.07 + 0.075 + 0.045),
        (1, "assert x\nNameError: x", AgentUse(1, 32, frozenset()), 0.07 + 0.15),
        (2, "", AgentUse(25, 32, frozenset()), 0.07 + 0.03),
    ],
)
def test_composite(exit_code: int, output: str, use: AgentUse, reward: float) -> None:
    value, parts = composite(exit_code, output, use)
    assert value == pytest.approx(reward)
    assert set(parts) == {"correctness", "efficiency", "toolUse"}
