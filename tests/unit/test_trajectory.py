"""A conversation as turns: each call with its answer, and nothing lost."""

from episode_operator.results.trajectory import Call, Entry, entries


def call(call_id: str, arguments: str = '{"command":"ls"}') -> dict[str, object]:
    return {"id": call_id, "function": {"name": "terminal", "arguments": arguments}}


def answer(call_id: str, text: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": call_id, "name": "terminal", "content": text}


def test_calls_have_their_answers_and_turns_their_numbers() -> None:
    found = entries(
        [
            {"role": "system", "content": "be short"},
            {"role": "user", "content": [{"type": "text", "text": "count"}]},
            {
                "role": "assistant",
                "content": None,
                "reasoning": "hm",
                "tool_calls": [call("a"), call("b", "not JSON"), call("c", "[1]")],
            },
            answer("b", "second"),
            answer("a", "first"),
            answer("x", "error: tool call 3 of 3 was not run"),
            {"role": "assistant", "content": "done"},
        ]
    )
    assert found == [
        Entry("system", "be short"),
        Entry("user", "count"),
        Entry(
            "assistant",
            "",
            0,
            reasoning="hm",
            calls=[
                Call("a", "terminal", {"command": "ls"}, "first"),
                Call("b", "terminal", "not JSON", "second"),
                Call("c", "terminal", "[1]"),
            ],
            answers=["error: tool call 3 of 3 was not run"],
        ),
        Entry("assistant", "done", 1),
    ]


def test_an_answer_without_a_turn_is_a_message() -> None:
    assert entries([answer("a", "late")]) == [Entry("tool", "late")]
