"""The Hermes parser: what models really write, and what must not be run."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episode_operator.api.reasons import MalformedCallKind as Kind
from episode_operator.model.calls import ToolCall, split_reasoning
from episode_operator.model.hermes import parse_turn
from episode_operator.model.turn import make_turn, turn_from_record, turn_to_record

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
arguments_of_calls = st.dictionaries(st.text(min_size=1), json_values, max_size=4)


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def test_a_tag_inside_an_argument_ends_nothing_and_the_second_call_counts() -> None:
    """cases.md 18."""
    text = "x </tool_call> y <tool_call> z"
    turn = parse_turn(
        call("write_file", path="/a", content=text) + "\n" + call("terminal", command="ls")
    )
    assert turn.calls == (
        ToolCall(name="write_file", arguments={"path": "/a", "content": text}),
        ToolCall(name="terminal", arguments={"command": "ls"}),
    )
    assert turn.malformed == ()
    assert turn.content == ""


def test_one_bad_call_spoils_no_other() -> None:
    turn = parse_turn(
        call("a") + '<tool_call>\n{"name": "b", "arguments": {\n</tool_call>' + call("c")
    )
    assert [one.name for one in turn.calls] == ["a", "c"]
    (bad,) = turn.malformed
    assert bad.text.startswith("<tool_call>") and bad.text.endswith("</tool_call>")
    assert "not valid JSON" in bad.problem and "<tool_call>" in bad.problem


def test_text_around_calls_is_kept() -> None:
    turn = parse_turn(f"First.\n{call('a')}\nThen.\n{call('b')}\nLast.")
    assert turn.content.split() == ["First.", "Then.", "Last."]
    assert [one.name for one in turn.calls] == ["a", "b"]


def test_calls_in_the_reasoning_are_thoughts() -> None:
    thought = f"<think>\nmaybe {call('rm')}\n</think>\n\n"
    turn = parse_turn(thought + call("ls"))
    assert [one.name for one in turn.calls] == ["ls"]
    assert turn.reasoning == f"maybe {call('rm')}"


def test_reasoning_opened_by_the_prompt() -> None:
    turn = parse_turn(f"hm {call('rm')}</think>{call('ls')}", reasoning_open=True)
    assert [one.name for one in turn.calls] == ["ls"]


@pytest.mark.parametrize("text", [f"<think>{call('rm')}", f"  <think>\n{call('rm')}\n"])
def test_reasoning_that_never_ends_runs_nothing(text: str) -> None:
    turn = parse_turn(text)
    assert turn.calls == () and turn.malformed == ()
    assert split_reasoning("a</think>b") == ("", "a</think>b")


@pytest.mark.parametrize(
    ("body", "kind", "problem"),
    [
        ("[1, 2]", Kind.NOT_AN_OBJECT, "must be an object"),
        ('{"arguments": {}}', Kind.MISSING_NAME, '"name"'),
        ('{"name": 3, "arguments": {}}', Kind.MISSING_NAME, '"name"'),
        ('{"name": "a", "arguments": [1]}', Kind.BAD_ARGUMENTS, "must be an object"),
        ('{"name": "a", "arguments": "not json"}', Kind.BAD_ARGUMENTS, "not text"),
        ('{"name": "a"} {"name": "b"}', Kind.TRAILING_TEXT, "more text follows its JSON object"),
        ("ls -l", Kind.INVALID_JSON, "not valid JSON"),
        ("", Kind.INVALID_JSON, "not valid JSON"),
        ("[" * 100_000, Kind.INVALID_JSON, "nested too deeply"),
    ],
)
def test_what_cannot_be_run_says_why(body: str, kind: Kind, problem: str) -> None:
    turn = parse_turn(call("a") + f"<tool_call>{body}</tool_call>" + call("c"))
    assert [one.name for one in turn.calls] == ["a", "c"]
    (bad,) = turn.malformed
    assert bad.kind is kind and bad.position == 1
    assert problem in bad.problem and bad.problem.endswith("</tool_call>")


@pytest.mark.parametrize(("depth", "runs"), [(250, True), (251, False), (253, False)])
def test_every_call_that_is_run_can_be_recorded(depth: int, runs: bool) -> None:
    """The record of a turn nests its calls deeper than the call alone."""
    nested = f'{{"name": "a", "arguments": {{"x": {"[" * depth}{"]" * depth}}}}}'
    parsed = parse_turn(f"<tool_call>{nested}</tool_call>")
    turn = make_turn(
        index=0,
        token_ids=[1],
        logprobs=[-1.0],
        finish_reason="stop",
        versions=(),
        top=[],
        text=nested,
        parsed=parsed,
    )
    assert turn_from_record(orjson.loads(orjson.dumps(turn_to_record(turn))), index=0) == turn
    assert [bool(parsed.calls), bool(parsed.malformed)] == [runs, not runs]


INNER = call("terminal", command="rm -rf /")
QUOTED = f"""<tool_call>
{{"name": "write_file", "arguments": {{"path": "a", "content": "say "{INNER}" ok"}}}}
</tool_call>"""


@pytest.mark.parametrize(
    "bad",
    [
        QUOTED,
        QUOTED.replace(INNER, INNER * 2),
        QUOTED.replace(INNER, f"</tool_call>{INNER}"),
        QUOTED.replace(INNER, QUOTED),
        f'<tool_call>{{"name": "a"}} "{INNER}"</tool_call>',
    ],
    ids=["once", "twice", "behind a closing tag", "twice nested", "behind an object"],
)
def test_a_call_inside_a_bad_call_is_not_run(bad: str) -> None:
    turn = parse_turn(call("a") + bad + call("c"))
    assert [one.name for one in turn.calls] == ["a", "c"]
    assert [one.text for one in turn.malformed] == [bad]


def test_a_bad_call_without_an_end_hides_what_follows() -> None:
    """It cannot be told whether the inner call is part of it."""
    turn = parse_turn(call("a") + '<tool_call>{"name": "b", "content": "' + call("c"))
    assert [one.name for one in turn.calls] == ["a"] and len(turn.malformed) == 1


def test_many_bad_calls_are_read_in_time() -> None:
    turn = parse_turn("<tool_call>x</tool_call>" * 20_000 + call("a"))
    assert len(turn.malformed) == 20_000 and len(turn.calls) == 1


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('<tool_call>{"name": "a"}</tool_call>', {}),
        ('<tool_call>\n\n  {"name": "a", "arguments": {"x": 1}}  \n</tool_call>', {"x": 1}),
        ('<tool_call>{"name": "a", "arguments": "{\\"x\\": 1}"}</tool_call>', {"x": 1}),
        ('<tool_call>{"name": "a", "arguments": {"x": "1\n2\t3"}}</tool_call>', {"x": "1\n2\t3"}),
        ('<tool_call>{"name": "a", "arguments": {"x": 1}}', {"x": 1}),
    ],
)
def test_habits_of_models_that_are_plain(text: str, arguments: dict[str, Any]) -> None:
    turn = parse_turn(text)
    assert turn.calls == (ToolCall(name="a", arguments=arguments),)
    assert turn.malformed == ()


def test_a_call_without_closing_tag_before_another() -> None:
    turn = parse_turn('<tool_call>{"name": "a"}\n' + call("b"))
    assert [one.name for one in turn.calls] == ["a", "b"]


@given(st.lists(st.tuples(st.text(min_size=1), arguments_of_calls), max_size=4))
def test_calls_come_back_exactly(calls: list[tuple[str, dict[str, Any]]]) -> None:
    text = "\n".join(
        f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
        for name, arguments in calls
    )
    turn = parse_turn(text)
    assert [(one.name, one.arguments) for one in turn.calls] == calls
    assert turn.malformed == () and turn.content == ""


@given(st.text(alphabet=st.sampled_from('<>/{}":,[]\\ntool_calhik'), max_size=200))
def test_no_text_breaks_the_parser(text: str) -> None:
    parse_turn(text)
    parse_turn("<tool_call>" + text + "<tool_call>" + text + "</tool_call>")


@pytest.mark.parametrize(
    "value",
    ['"\\ud800"', "9" * 30, "9" * 5_000, "[" * 400 + "]" * 400, "[" * 100_000, "NaN"],
    ids=["surrogate", "integer", "digits", "nested", "unclosed", "constant"],
)
def test_what_no_json_writer_takes_is_a_bad_call_and_no_crash(value: str) -> None:
    good = '<tool_call>\n{"name": "t", "arguments": {}}\n</tool_call>'
    bad = f'<tool_call>\n{{"name": "t", "arguments": {{"x": {value}}}}}\n</tool_call>'
    parsed = parse_turn(bad + good)
    assert [one.name for one in parsed.calls] == ["t"]
    assert len(parsed.malformed) == 1
