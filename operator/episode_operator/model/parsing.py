"""From a turn's text to its tool calls, in whichever form the model writes them.

The forms of Hermes and of Qwen3 Coder are read here: the server's parsers lose such calls, cut
their arguments short, and run calls that only stand inside an argument. Other forms are read by the
server's own parser, which knows its model. What it leaves out is found again by how the chat
template opens a call.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import takewhile
from typing import Any

import orjson

from episode_operator.api.reasons import MalformedCallKind
from episode_operator.model import hermes, qwen_xml
from episode_operator.model.calls import (
    MalformedCall,
    ParsedTurn,
    ToolCall,
    split_reasoning,
)
from episode_operator.model.client import Message, VllmClient
from episode_operator.model.errors import ModelBadRequest, ModelBadResponse

_PROBE, _ANSWER = "probe", "Alpha"
_PROBE_TOOL = {
    "type": "function",
    "function": {"name": _PROBE, "parameters": {"type": "object", "properties": {}}},
}
_QUESTION = {"role": "user", "content": "Hello."}


class Reader(StrEnum):
    """Who reads a model's tool calls, and how."""

    HERMES = "Hermes"
    QWEN_XML = "QwenXml"
    SERVER = "Server"


@dataclass(frozen=True, kw_only=True)
class ToolForm:
    """The form of a model's tool calls; `example` is the template's own call of a tool `probe`,
    empty where the template writes none.
    """

    reader: Reader
    example: str = ""

    def opened(self, text: str, tools: Sequence[Mapping[str, Any]]) -> int:
        """How often `text` begins to call one of the tools."""
        before, _, after = self.example.partition(_PROBE)
        bracket = re.search(r"[{\[<(][^{\[<(]*$", before)
        if bracket is None:
            return 0
        opening = r"\s*".join(re.escape(one) for one in re.findall(r"\w+|[^\w\s]", bracket[0]))
        closing = re.escape(after.strip()[:1]) or r"(?!\w)"
        names = "|".join(re.escape(tool["function"]["name"]) for tool in tools)
        return len(re.findall(rf"{opening}\s*(?:{names})\s*{closing}", text))


HERMES = ToolForm(reader=Reader.HERMES)


async def tool_form(client: VllmClient) -> ToolForm:
    """The form that the chat template writes calls in; Hermes where it writes none.

    A template that cannot render calls at all leaves the model to what it is told in words.
    """
    call = {"id": "call_0", "type": "function", "function": {"name": _PROBE, "arguments": "{}"}}
    try:
        texts = [
            await client.detokenize(
                await client.render(
                    [_QUESTION, {"role": "assistant", **answer}],
                    tools=[_PROBE_TOOL],
                    generation_prompt=False,
                )
            )
            for answer in ({"content": "", "tool_calls": [call]}, {"content": _ANSWER})
        ]
    except ModelBadRequest:
        return HERMES
    called, answered = texts
    closing = answered.rpartition(_ANSWER)[2]
    same = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(called, answered, strict=False))
    )
    example = called[same:].removesuffix(closing).strip()
    if _PROBE not in example:
        return HERMES
    if any(one.name == _PROBE for one in hermes.parse_turn(example).calls):
        return ToolForm(reader=Reader.HERMES, example=example)
    if any(one.name == _PROBE for one in qwen_xml.parse_turn(example, tools=()).calls):
        return ToolForm(reader=Reader.QWEN_XML, example=example)
    return ToolForm(reader=Reader.SERVER, example=example)


async def parse(
    client: VllmClient,
    form: ToolForm,
    *,
    text: str,
    token_ids: Sequence[int],
    ended: bool,
    reasoning_open: bool,
    prompt: Sequence[int],
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
) -> ParsedTurn:
    """What a turn says. `token_ids` are its ids without the end token, `text` what they spell.

    Of a turn that was cut off, not `ended`, no call is run.
    """
    if form.reader is Reader.QWEN_XML:
        parsed = qwen_xml.parse_turn(text, tools=tools, reasoning_open=reasoning_open)
    elif form.reader is Reader.HERMES or not tools:
        parsed = hermes.parse_turn(text, reasoning_open=reasoning_open)
    else:
        reasoning, rest = split_reasoning(text, reasoning_open=reasoning_open)
        parsed = ParsedTurn(reasoning=reasoning, content=rest.strip(), calls=(), malformed=())
        if not ended:
            return replace(parsed, cut_calls=form.opened(rest, tools))
        if parsed.content:
            derender = partial(client.derender, prompt=prompt, messages=messages, tools=tools)
            message = await derender(token_ids=token_ids)
            if reasoning and (message.get("reasoning") or "").strip() != reasoning:
                # The server does not tell thoughts from calls, or not there: it gets none to read.
                message = await derender(token_ids=await client.tokenize(parsed.content))
            return read_by_server(form, message, parsed, tools=tools)
    if ended:
        return parsed
    cut_calls = len(parsed.calls) + len(parsed.malformed)
    return replace(parsed, calls=(), malformed=(), cut_calls=cut_calls)


def read_by_server(
    form: ToolForm,
    message: Mapping[str, Any],
    plain: ParsedTurn,
    *,
    tools: Sequence[Mapping[str, Any]],
) -> ParsedTurn:
    """The calls of the server's message, and that one was lost if more are begun in the content."""
    written = f"Write it as {form.example.replace(_PROBE, 'TOOL')}"
    calls: list[ToolCall] = []
    malformed: list[MalformedCall] = []
    for position, (name, given) in enumerate(_calls_of(message)):
        found = hermes.checked_arguments(name, _object(given))
        if isinstance(found, ToolCall):
            calls.append(found)
            continue
        malformed.append(
            MalformedCall(
                text=str(given),
                kind=found.kind,
                problem=f"in the call of {name!r}, {found.problem}. {written}",
                position=position,
            )
        )
    count = len(calls) + len(malformed)
    quoted = sum(form.opened(one, tools) for call in calls for one in _texts(call.arguments))
    if form.opened(plain.content, tools) - quoted > count:
        malformed.append(
            MalformedCall(
                text=plain.content,
                kind=MalformedCallKind.NOT_READ_BY_SERVER,
                problem=f"it is not as a call must be, or other text stands beside it. {written}",
                position=count,
            )
        )
    return ParsedTurn(
        reasoning=plain.reasoning or (message.get("reasoning") or "").strip(),
        content=(message.get("content") or ("" if calls else plain.content)).strip(),
        calls=tuple(calls),
        malformed=tuple(malformed),
    )


def _calls_of(message: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for one in message.get("tool_calls") or []:
        function = one.get("function") if isinstance(one, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise ModelBadResponse(f"the server read a tool call as {one!r}")
        yield function["name"], function.get("arguments")


def _object(given: object) -> dict[str, Any] | None:
    try:
        value = orjson.loads(given) if isinstance(given, str) else given
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
