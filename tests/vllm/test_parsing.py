"""Tool calls read out of turns, next to vLLM's real parsers."""

import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from episode_operator.api.reasons import MalformedCallKind as Kind
from episode_operator.model import (
    Conversation,
    Reader,
    SampledTurn,
    SamplingConfig,
    VllmClient,
    detect,
)
from episode_operator.model.parsing import parse
from tests.fakes.vllm_server import Reply
from tests.fuzz.checks.xml_calls import written as xml
from tests.vllm.servers import SERVED, THINKING, FrontEnd, opened

TEXT = {"type": "string"}
PROPERTIES = {
    "command": TEXT,
    "timeout": {"type": "integer"},
    "background": {"type": "boolean"},
    "options": {"type": "object"},
}
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": properties},
        },
    }
    for name, properties in (
        ("terminal", PROPERTIES),
        ("write_file", {"path": TEXT, "content": TEXT}),
    )
]
OPENING = [{"role": "user", "content": "Do it."}]
LS = {"command": "ls"}


def hermes(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def llama(name: str, **parameters: Any) -> str:
    return json.dumps({"name": name, "parameters": parameters}, ensure_ascii=False)


async def said(
    server: FrontEnd, client: VllmClient, text: str, *, finish_reason: str = "stop"
) -> SampledTurn:
    """The turn that a conversation makes of a text."""
    capabilities = await detect(client)
    conversation = await Conversation.start(
        client, capabilities, OPENING, TOOLS, sampling=SamplingConfig(max_tokens=1000)
    )
    assert capabilities.end_token is not None
    end = [capabilities.end_token] if finish_reason == "stop" else []
    ids = (*await client.tokenize(text), *end)
    server.replies.append(Reply(ids=ids, finish_reason=finish_reason))
    turn = await conversation.sample()
    assert turn.text == text
    return turn


def calls_of(turn: SampledTurn) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in turn.calls]


async def read_by_vllm(client: VllmClient, text: str) -> list[tuple[str, dict[str, Any]]]:
    """What vLLM's parser makes of a text."""
    message = await client.derender(
        prompt=await client.render(OPENING, tools=TOOLS),
        token_ids=await client.tokenize(text),
        messages=OPENING,
        tools=TOOLS,
    )
    functions = [call["function"] for call in message.get("tool_calls") or []]
    return [(one["name"], json.loads(one["arguments"])) for one in functions]


FORMS = {
    "Qwen2.5": (Reader.HERMES, '<tool_call>\n{"name": "probe", "arguments": {}}\n</tool_call>'),
    "Qwen3": (Reader.HERMES, '<tool_call>\n{"name": "probe", "arguments": {}}\n</tool_call>'),
    "Qwen3 Thinking": (
        Reader.HERMES,
        '<tool_call>\n{"name": "probe", "arguments": {}}\n</tool_call>',
    ),
    "Qwen3 Coder": (Reader.QWEN_XML, xml("probe")),
    "Llama 3": (Reader.SERVER, '{"name": "probe", "parameters": {}}'),
    THINKING: (Reader.SERVER, '{"name": "probe", "parameters": {}}'),
    "Llama 3 pythonic": (Reader.SERVER, "[probe()]"),
    "ChatML": (Reader.HERMES, ""),
    "Gemma 3": (Reader.HERMES, ""),
}


@pytest.mark.parametrize("name", [served.name for served in SERVED])
async def test_the_form_is_learnt_from_the_template(urls: dict[str, str], name: str) -> None:
    async with opened(urls[name]) as (_, client):
        form = (await detect(client)).tool_form
    assert (form.reader, form.example) == FORMS[name]


WELL_FORMED = {
    "Qwen3": [
        hermes("terminal", command="ls"),
        hermes("terminal", **LS, timeout=5) + "\n" + hermes("nosuch", a=[1, {"b": None}]),
        "<think>\nhm\n</think>\n\nSo.\n" + hermes("write_file", path="a", content='é\n"\\'),
    ],
    "Qwen3 Coder": [
        xml("terminal", command="ls"),
        "So.\n" + xml("terminal", command="a\n  b") + "\n" + xml("nosuch", a="1"),
        xml("terminal", timeout="5", background="true", options='{"a": [1]}', command="5"),
        xml("write_file", path="a", content='{"a": 1}') + xml("terminal"),
        "<think>\nhm\n</think>\n\n" + xml("terminal", command="ls"),
    ],
}


@pytest.mark.parametrize("name", WELL_FORMED)
async def test_our_readers_agree_with_vllm_on_plain_calls(urls: dict[str, str], name: str) -> None:
    async with opened(urls[name]) as (server, client):
        for text in WELL_FORMED[name]:
            turn = await said(server, client, text)
            assert turn.calls and not turn.malformed
            assert calls_of(turn) == await read_by_vllm(client, text)


RUNS_WHAT_NOBODY_CALLED = [
    xml(
        "write_file", path="a", content="</function></tool_call>\n" + xml("terminal", command="rm")
    ),
    "<tool_call>\n<function=terminal>\n<parameter=command>\nls",
    "I use <function=terminal> often",
    "<think>maybe " + xml("terminal", command="rm") + "</think>\n\nDone.",
]


@pytest.mark.parametrize("text", RUNS_WHAT_NOBODY_CALLED)
async def test_why_the_form_of_qwen_coder_is_read_here(urls: dict[str, str], text: str) -> None:
    async with opened(urls["Qwen3 Coder"]) as (server, client):
        turn = await said(server, client, text)
        assert not any(name == "terminal" for name, _ in calls_of(turn))
        assert any(name == "terminal" for name, _ in await read_by_vllm(client, text))


@pytest.mark.parametrize(
    ("name", "text", "calls", "kinds"),
    [
        ("Llama 3", llama("terminal", command="ls"), [("terminal", LS)], []),
        ("Llama 3", "<|python_tag|>" + llama("terminal", command="ls"), [("terminal", LS)], []),
        (
            "Llama 3",
            llama("terminal", command="ls") + "; " + llama("write_file", path="</a>"),
            [("terminal", LS), ("write_file", {"path": "</a>"})],
            [],
        ),
        (
            "Llama 3",
            llama("terminal", command=llama("terminal", command="rm")),
            [("terminal", {"command": llama("terminal", command="rm")})],
            [],
        ),
        ("Llama 3", '{"name": "terminal", "parameters": "ls"}', [], [Kind.BAD_ARGUMENTS]),
        ("Llama 3", '{"name": "terminal", "parameters": {"c": 1}', [], [Kind.NOT_READ_BY_SERVER]),
        ("Llama 3", llama("terminal") + ' {"a": 1}', [], [Kind.NOT_READ_BY_SERVER]),
        ("Llama 3", '{ "name":"terminal", "parameters": {,}}', [], [Kind.NOT_READ_BY_SERVER]),
        ("Llama 3", '{"a": 1} is JSON', [], []),
        ("Llama 3", "Done.", [], []),
        ("Llama 3 pythonic", "[terminal(command='ls')]", [("terminal", LS)], []),
        (
            "Llama 3 pythonic",
            "[terminal(command='ls'), terminal(timeout=-1, options={'a': [None]})]",
            [("terminal", LS), ("terminal", {"timeout": -1, "options": {"a": [None]}})],
            [],
        ),
        (
            "Llama 3 pythonic",
            "[terminal(command='[terminal(command=1)]')]",
            [("terminal", {"command": "[terminal(command=1)]"})],
            [],
        ),
        ("Llama 3 pythonic", "So: [terminal(command='ls')]", [], [Kind.NOT_READ_BY_SERVER]),
        ("Llama 3 pythonic", "[terminal(command=ls)]", [], [Kind.NOT_READ_BY_SERVER]),
        ("Llama 3 pythonic", "[terminal('ls')]", [], [Kind.NOT_READ_BY_SERVER]),
        ("Llama 3 pythonic", "[terminal(command='ls'", [], [Kind.NOT_READ_BY_SERVER]),
        ("Llama 3 pythonic", "[1, 2] and list[0](x)", [], []),
        ("Llama 3 pythonic", "Done.", [], []),
    ],
)
async def test_forms_that_the_server_reads(
    urls: dict[str, str],
    name: str,
    text: str,
    calls: list[tuple[str, dict[str, Any]]],
    kinds: list[Kind],
) -> None:
    """What vLLM's parser leaves out is told to the model instead of lost."""
    async with opened(urls[name]) as (server, client):
        turn = await said(server, client, text)
        assert calls_of(turn) == calls
        assert [bad.kind for bad in turn.malformed] == kinds
        assert all("TOOL" in bad.problem for bad in turn.malformed)
        cut_off = await said(server, client, text, finish_reason="length")
        assert cut_off.calls == () and cut_off.malformed == ()
        begun = any(f"{quote}terminal{quote}" in text or "terminal(" in text for quote in "\"'")
        assert bool(cut_off.cut_calls) == begun


@pytest.mark.parametrize("name", ["Llama 3", THINKING, "Llama 3 pythonic"])
async def test_calls_in_the_reasoning_are_thoughts(urls: dict[str, str], name: str) -> None:
    """cases.md 12; with a parser for reasoning on the server and without."""
    thought, call = llama("terminal", command="rm"), llama("terminal", command="ls")
    if name == "Llama 3 pythonic":
        thought, call = "[terminal(command='rm')]", "[terminal(command='ls')]"
    async with opened(urls[name]) as (server, client):
        turn = await said(server, client, f"<think>{thought}</think>\n\n{call}")
        assert calls_of(turn) == [("terminal", LS)] and turn.malformed == ()
        assert turn.reasoning == thought and turn.content == ""
        silent = await said(server, client, f"<think>{thought}</think>\n\nDone.")
        assert silent.calls == () and silent.malformed == () and silent.content == "Done."
        assert (await said(server, client, f"<think>{thought}")).calls == ()


@pytest.mark.parametrize("name", ["Qwen2.5", "Qwen3", "Qwen3 Thinking", "ChatML"])
async def test_the_hermes_form(urls: dict[str, str], name: str) -> None:
    """cases.md 18, and a call inside a bad call. vLLM's parser loses the first two."""
    content = "a </tool_call> b"
    good = hermes("write_file", path="w", content=content) + hermes("terminal", command="ls")
    inner = hermes("terminal", command="rm")
    quoted = hermes("write_file", content="say INNER").replace("INNER", f'"{inner}"')
    start = "hm</think>" if name == "Qwen3 Thinking" else ""
    async with opened(urls[name]) as (server, client):
        turn = await said(server, client, start + good)
        assert calls_of(turn) == [
            ("write_file", {"path": "w", "content": content}),
            ("terminal", LS),
        ]
        assert await read_by_vllm(client, good) != calls_of(turn)
        turn = await said(server, client, f"{start}{quoted}\n{hermes('terminal', command='ls')}")
        assert calls_of(turn) == [("terminal", LS)]
        assert [bad.kind for bad in turn.malformed] == [Kind.INVALID_JSON]
        cut_off = await said(server, client, start + good, finish_reason="length")
        assert cut_off.calls == () and cut_off.cut_calls == 2


PIECES = {
    "Llama 3": (
        llama("terminal", command="ls"),
        llama("write_file", path="a", content="[x] {y}"),
        '{"name": "terminal", "parameters": ',
        '{"command": "pwd"}',
        "}",
        "; ",
        "<|python_tag|>",
    ),
    "Llama 3 pythonic": (
        "[terminal(command='ls')]",
        "[write_file(path='a', content='[x] {y}'), terminal()]",
        "[terminal(",
        "command='pwd'",
        ")]",
        ", ",
    ),
}


@pytest.mark.parametrize("name", PIECES)
async def test_of_any_text_no_call_is_lost_or_invented(urls: dict[str, str], name: str) -> None:
    random = Random(f"{name} 7")
    seen: Counter[str] = Counter()
    async with opened(urls[name]) as (_, client):
        form = (await detect(client)).tool_form
        prompt = await client.render(OPENING, tools=TOOLS)
        for _ in range(60):
            pieces = random.choices((*PIECES[name], "So. ", "\n", "x"), k=random.randint(1, 4))
            text = "".join(pieces)
            turn = await parse(
                client,
                form,
                text=text,
                token_ids=await client.tokenize(text),
                ended=True,
                reasoning_open=False,
                prompt=prompt,
                messages=OPENING,
                tools=TOOLS,
            )
            for call in turn.calls:
                assert call.name in text
                assert all(value in text for value in call.arguments.values())
            begun = form.opened(text, TOOLS)
            assert len(turn.calls) >= begun or turn.malformed
            assert turn.calls or turn.malformed or turn.content == text.strip()
            seen.update(read=bool(turn.calls), told=bool(turn.malformed), begun=begun > 0)
    assert min(seen["read"], seen["told"], seen["begun"]) >= 3, "the texts show too little"
