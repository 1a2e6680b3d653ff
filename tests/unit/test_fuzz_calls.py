"""Tool calls in any text."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from episode_operator.model.calls import CLOSE, OPEN
from episode_operator.model.hermes import parse_turn
from episode_operator.model.qwen_xml import parse_turn as parse_xml
from tests.fuzz.checks import calls, server_calls, xml_calls
from tests.fuzz.profile import PROFILE

TAGS = st.sampled_from([OPEN, CLOSE, "<think>", "</think>", "<tool_call", "\n"])
TAGGED = st.lists(TAGS | st.text(max_size=4), max_size=4).map("".join)
ARGUMENTS = st.dictionaries(
    st.text(max_size=3), TAGGED | st.integers(-9, 9) | st.booleans() | st.none(), max_size=3
)
CALLS = st.lists(st.tuples(st.text(min_size=1, max_size=5), ARGUMENTS), max_size=4)
OUTSIDE = st.text(alphabet='ab {}"\n>', max_size=6)
PIECES = st.one_of(
    TAGS,
    st.text(max_size=4),
    st.sampled_from(['{"name": "a"}', '{"name": "b", "arguments": {"x": 1e999}}', "{", "}", '"']),
    CALLS.map(lambda several: "".join(written(name, its) for name, its in several)),
)


def written(name: str, arguments: dict[str, Any]) -> str:
    return f"{OPEN}\n{json.dumps({'name': name, 'arguments': arguments})}\n{CLOSE}"


@PROFILE
@given(st.lists(PIECES, max_size=8).map("".join), st.booleans())
def test_no_call_is_invented(text: str, reasoning_open: bool) -> None:
    calls.check(text, reasoning_open=reasoning_open)


@PROFILE
@given(CALLS, OUTSIDE, st.data())
def test_of_a_truncated_turn_the_complete_calls_are_left(
    made: list[tuple[str, dict[str, Any]]], outside: str, data: st.DataObject
) -> None:
    """Tags in arguments included. A call counts once its object is there and no tag is begun."""
    text, ends = "", []
    for name, arguments in made:
        text += outside + written(name, arguments)
        ends.append(len(text))
    cut = text[: data.draw(st.integers(0, len(text)))]
    complete = sum(
        len(cut) >= end or cut.rstrip("\n") == text[: end - len(CLOSE) - 1] for end in ends
    )
    turn = parse_turn(cut)
    assert [(call.name, call.arguments) for call in turn.calls] == made[:complete]
    rest = cut[ends[complete - 1] :] if complete else cut
    assert bool(turn.malformed) == (OPEN in rest)
    calls.check(cut, reasoning_open=False)


@PROFILE
@given(CALLS, CALLS, OUTSIDE)
def test_no_call_inside_a_bad_call_is_run(
    quoted: list[tuple[str, dict[str, Any]]], made: list[tuple[str, dict[str, Any]]], text: str
) -> None:
    """The outer call's text is not escaped, so its JSON ends at the first quote."""
    inner = text.join(written(name, arguments) for name, arguments in quoted)
    bad = f'{OPEN}{{"name": "w", "arguments": {{"x": "a "{inner}" b"}}}}{CLOSE}'
    around = [written(name, arguments) for name, arguments in made]
    turn = parse_turn(bad.join(["", *around]) if around else bad)
    assert [(call.name, call.arguments) for call in turn.calls] == made
    assert {one.text for one in turn.malformed} == {bad}


@PROFILE
@given(CALLS, st.data())
def test_damage_adds_no_call(made: list[tuple[str, dict[str, Any]]], data: st.DataObject) -> None:
    text = "".join(written(name, arguments) for name, arguments in made)
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(at + 4, len(text))))
    calls.check(text[:at] + data.draw(st.text(max_size=3)) + text[until:], reasoning_open=False)


XML_TAGS = st.sampled_from(
    [
        OPEN,
        CLOSE,
        "<function=terminal>",
        "</function>",
        "<parameter=command>\n",
        "<parameter=timeout>",
        "\n</parameter>",
        "<think>",
        "</think>",
        "5",
        "\n",
    ]
)
XML_PIECES = XML_TAGS | st.text(max_size=4) | st.just(xml_calls.written("terminal", command="ls"))


@PROFILE
@given(st.lists(XML_PIECES, max_size=12).map("".join), st.booleans())
def test_no_xml_call_is_invented(text: str, reasoning_open: bool) -> None:
    xml_calls.check(text, reasoning_open=reasoning_open)


@PROFILE
@given(st.data())
def test_a_truncated_xml_call_is_not_run(data: st.DataObject) -> None:
    whole = xml_calls.written("terminal", command="ls", timeout="5")
    cut = whole[: data.draw(st.integers(0, len(whole) - len(CLOSE) - 2))]
    assert parse_xml(cut, tools=xml_calls.TOOLS).calls == ()


SERVER_PIECES = st.sampled_from(
    ['{"name": "terminal"', '"parameters": {}}', "[terminal(", ")]", "<call>terminal\n", "x", " "]
)
FUNCTIONS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["terminal", "fly"]),
        "arguments": st.sampled_from(["{}", "[]", "{", '{"command": "[terminal()]"}', "null"])
        | st.none()
        | st.just({}),
    }
)


@PROFILE
@given(
    st.lists(SERVER_PIECES | st.text(max_size=3), max_size=6).map("".join),
    st.lists(FUNCTIONS.map(lambda one: {"function": one}), max_size=3),
)
def test_of_the_servers_calls_none_is_lost_or_invented(
    content: str, told: list[dict[str, Any]]
) -> None:
    server_calls.check(content, {"content": content, "tool_calls": told})
