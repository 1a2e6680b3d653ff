"""How many calls a text begins, by the template's own call of a tool `probe`."""

from typing import Any

import pytest

from episode_operator.api.reasons import MalformedCallKind
from episode_operator.model.calls import ParsedTurn
from episode_operator.model.parsing import Reader, ToolForm, read_by_server

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name}} for name in ("terminal", "write_file")
]
JSON = '{"name": "probe", "parameters": {}}'
GLM = "<tool_call>probe\n</tool_call>"
DEEPSEEK = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>probe\n```json\n{}\n```<｜tool▁call▁end｜>"


@pytest.mark.parametrize(
    ("example", "text", "count"),
    [
        (JSON, '{"name": "terminal", "parameters": {}}; {"name":"write_file"', 2),
        (JSON, '{ "name" :\n"terminal"', 1),
        (JSON, '{"name": "terminals"} {"name": "fly"} {"x": "terminal"} terminal', 0),
        ("[probe()]", "[terminal(command='ls'), write_file()]", 1),
        ("[probe()]", "terminal() and [terminal] and [fly()]", 0),
        (GLM, "<tool_call>terminal\n<arg_key>", 1),
        (GLM, "<tool_call>terminal", 0),
        (DEEPSEEK, "<｜tool▁sep｜>terminal\n```json", 1),
        ("", "terminal()", 0),
    ],
)
def test_begun_calls(example: str, text: str, count: int) -> None:
    assert ToolForm(reader=Reader.SERVER, example=example).opened(text, TOOLS) == count


@pytest.mark.parametrize("given", ["[]", "no JSON", f'{{"x": {"[" * 251}{"]" * 251}}}'])
def test_arguments_that_cannot_be_recorded_are_not_run(given: str) -> None:
    """What the server's parser reads is checked like what is read here."""
    calls = [{"function": {"name": "terminal", "arguments": one}} for one in (given, "{}")]
    plain = ParsedTurn(reasoning="", content="", calls=(), malformed=())
    form = ToolForm(reader=Reader.SERVER, example=JSON)
    turn = read_by_server(form, {"tool_calls": calls}, plain, tools=TOOLS)
    assert [one.arguments for one in turn.calls] == [{}]
    (bad,) = turn.malformed
    assert bad.kind is MalformedCallKind.BAD_ARGUMENTS and "'terminal'" in bad.problem
