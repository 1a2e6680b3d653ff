"""From a turn's text to its tool calls, in whichever form the model writes them.

The Hermes form is read here (see `hermes` for why); other forms by the server's own parser, which
knows its model but loses calls in odd cases.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import orjson

from episode_operator.model.client import Message, VllmClient
from episode_operator.model.errors import ModelBadRequest, ModelBadResponse
from episode_operator.model.hermes import MalformedCall, ParsedTurn, ToolCall, parse_turn

_PROBE = "probe"
_PROBE_TOOL = {
    "type": "function",
    "function": {"name": _PROBE, "parameters": {"type": "object", "properties": {}}},
}


class ToolForm(StrEnum):
    """Who reads a model's tool calls."""

    HERMES = "Hermes"
    SERVER = "Server"


async def tool_form(client: VllmClient) -> ToolForm:
    """The form that the chat template writes calls in; Hermes where it writes none.

    A template that cannot render calls at all leaves the model to what it is told in words.
    """
    call = {"id": "call_0", "type": "function", "function": {"name": _PROBE, "arguments": "{}"}}
    messages: list[Message] = [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    try:
        ids = await client.render(messages, tools=[_PROBE_TOOL], generation_prompt=False)
        before = await client.render(messages[:1], tools=[_PROBE_TOOL], generation_prompt=False)
    except ModelBadRequest:
        return ToolForm.HERMES
    text = (await client.detokenize(ids)).removeprefix(await client.detokenize(before))
    if _PROBE not in text:
        return ToolForm.HERMES
    read = any(one.name == _PROBE for one in parse_turn(text).calls)
    return ToolForm.HERMES if read else ToolForm.SERVER


async def parse_on_server(
    client: VllmClient,
    *,
    prompt: Sequence[int],
    token_ids: Sequence[int],
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
) -> ParsedTurn:
    """What the server's parser makes of a turn that ended by itself, without its end token."""
    message = await client.derender(
        prompt=prompt, token_ids=token_ids, messages=messages, tools=tools
    )
    calls: list[ToolCall] = []
    malformed: list[MalformedCall] = []
    for one in message.get("tool_calls") or []:
        function = one.get("function") if isinstance(one, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise ModelBadResponse(f"the server read a tool call as {one!r}")
        name, arguments = function["name"], _arguments(function.get("arguments"))
        if arguments is None:
            problem = f"This call of {name} was not run: its arguments are no JSON object."
            malformed.append(MalformedCall(text=str(function.get("arguments")), problem=problem))
        else:
            calls.append(ToolCall(name=name, arguments=arguments))
    return ParsedTurn(
        reasoning=message.get("reasoning") or "",
        content=(message.get("content") or "").strip(),
        calls=tuple(calls),
        malformed=tuple(malformed),
    )


def _arguments(text: object) -> dict[str, Any] | None:
    try:
        value = orjson.loads(text) if isinstance(text, str) else text
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
