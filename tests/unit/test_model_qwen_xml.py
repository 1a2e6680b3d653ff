"""The form of Qwen3 Coder: values stand as they are, and what is ambiguous is not run."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episode_operator.api.reasons import MalformedCallKind as Kind
from episode_operator.model.calls import ToolCall
from episode_operator.model.qwen_xml import parse_turn
from tests.fuzz.checks.xml_calls import TOOLS, written

words = st.text(alphabet=st.sampled_from('ab <>/=\n"{}é'), max_size=12)
tags = st.sampled_from(
    [
        "</tool_call>",
        "</function>",
        "<function=x>",
        "<tool_call>",
        "\n</parameter>",
        "<think>",
        "\n",
    ]
)
values = st.lists(words | tags, max_size=3).map("".join)


def read(text: str, *, reasoning_open: bool = False) -> Any:
    return parse_turn(text, tools=TOOLS, reasoning_open=reasoning_open)


def test_calls_with_text_around_them() -> None:
    turn = read(f"First.\n{written('terminal', command='ls')}\n{written('nosuch', a='1')}\nLast.")
    assert turn.calls == (
        ToolCall(name="terminal", arguments={"command": "ls"}),
        ToolCall(name="nosuch", arguments={"a": "1"}),
    )
    assert turn.content.split() == ["First.", "Last."] and turn.malformed == ()


def test_values_that_cannot_be_kept_spoil_no_call_beside_them() -> None:
    bad = written("terminal", command="\ud800")
    turn = read(written("nosuch", a="1") + bad + written("terminal", command="ls"))
    assert [(one.name, one.arguments) for one in turn.calls] == [
        ("nosuch", {"a": "1"}),
        ("terminal", {"command": "ls"}),
    ]
    assert [(one.text, one.kind, one.position) for one in turn.malformed] == [
        (bad, Kind.BAD_ARGUMENTS, 1)
    ]


@pytest.mark.parametrize(
    "value",
    [
        "x </tool_call> y </parameter> z",
        "</function></tool_call>\n" + written("terminal", command="rm"),
        written("terminal", command="rm"),
        "say <tool_call> and <function=terminal>",
        "",
        "\n",
        "a\r\n\n  b\n",
        '{"a": 1}',
    ],
)
def test_a_value_comes_back_as_it_is(value: str) -> None:
    """cases.md 18. vLLM's own parser cuts the first short and runs the second's inner call."""
    turn = read(written("write_file", path="a", content=value) + written("terminal", command="ls"))
    assert [(one.name, one.arguments) for one in turn.calls] == [
        ("write_file", {"path": "a", "content": value}),
        ("terminal", {"command": "ls"}),
    ]
    assert turn.malformed == ()


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        ("timeout", "5", 5),
        ("timeout", "5 minutes", "5 minutes"),
        ("background", "True", True),
        ("background", "false", False),
        ("either", "7", 7),
        ("either", "null", None),
        ("shape", '{"a": [1]}', {"a": [1]}),
        ("command", "5", "5"),
        ("loose", "5", "5"),
        ("unheard_of", "5", "5"),
    ],
)
def test_values_have_the_type_that_the_tool_wants(parameter: str, text: str, value: Any) -> None:
    (one,) = read(written("terminal", **{parameter: text})).calls
    assert one.arguments == {parameter: value} and type(one.arguments[parameter]) is type(value)


@pytest.mark.parametrize(
    ("bad", "kind", "problem"),
    [
        ('<tool_call>\n{"name": "terminal"}\n</tool_call>', Kind.WRONG_FORM, "<function=TOOL>"),
        ("<tool_call>\n</tool_call>", Kind.WRONG_FORM, "<function=TOOL>"),
        ("<tool_call>\n<function=terminal\n</tool_call>", Kind.WRONG_FORM, "<function=TOOL>"),
        (
            "<tool_call><function=terminal><parameter=command>ls</function></tool_call>",
            Kind.WRONG_FORM,
            "'command' has no end",
        ),
        (
            "<tool_call><function=terminal>ls</function></tool_call>",
            Kind.WRONG_FORM,
            "must follow, not 'ls",
        ),
        (
            "<tool_call><function=terminal><parameter=a>1</parameter><parameter=a>2</parameter>"
            "</function></tool_call>",
            Kind.WRONG_FORM,
            "twice",
        ),
        ("<tool_call><function=a></function> so </tool_call>", Kind.TRAILING_TEXT, "must follow"),
    ],
)
def test_what_cannot_be_run_says_why(bad: str, kind: Kind, problem: str) -> None:
    turn = read(written("terminal", command="ls") + bad + written("terminal", command="pwd"))
    assert [one.arguments["command"] for one in turn.calls] == ["ls", "pwd"]
    (found,) = turn.malformed
    assert found.text == bad and found.kind is kind and found.position == 1
    assert problem in found.problem and found.problem.endswith("</tool_call>")


@pytest.mark.parametrize(
    "value",
    [
        "</parameter>\n</function>\n</tool_call>",
        "\n</parameter></function><tool_call>",
        "\n</parameter></function></tool_call><tool_call>",
    ],
)
def test_a_call_whose_value_was_cut_is_not_run(value: str) -> None:
    """An opened parameter is missing inside, so the value ends too early: tags are left over."""
    turn = read(written("write_file", content=value))
    assert turn.calls == ()
    assert turn.malformed[0].kind is Kind.TRAILING_TEXT


@pytest.mark.parametrize("end", ["", "\n</tool_call>"])
def test_a_call_that_is_not_finished_is_not_run(end: str) -> None:
    turn = read("<tool_call>\n<function=terminal>\n<parameter=command>\nls" + end)
    assert turn.calls == () and len(turn.malformed) == 1


def test_prose_about_the_form_is_no_call() -> None:
    assert read("I use <function=terminal> often").calls == ()


def test_calls_in_the_reasoning_are_thoughts() -> None:
    thought = written("terminal", command="rm")
    turn = read(f"<think>{thought}</think>{written('terminal', command='ls')}")
    assert [one.arguments["command"] for one in turn.calls] == ["ls"]
    assert read(thought, reasoning_open=True).calls == ()


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b"]), st.dictionaries(st.sampled_from("xyz"), values))
    )
)
def test_calls_come_back_exactly_or_not_at_all(made: list[tuple[str, dict[str, str]]]) -> None:
    turn = read("\n".join(written(name, **arguments) for name, arguments in made))
    calls = [(one.name, one.arguments) for one in turn.calls]
    assert all(one in made for one in calls)
    assert turn.malformed or calls == made
