"""A tokenizer and chat templates small enough to read, with the traps of the real ones.

Longest match: special texts first of all, some ordinary texts of several characters (so that what
is around a text changes how it is cut), else one id for every character.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

SPECIALS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<|tool|>",
    "<|assistant|>",
    "<| a pad |>",
)
END = SPECIALS.index("<|im_end|>")
MERGED = ("[[", "]]", "[0]", ">\n", "<|", "|>")
_FIRST_CHARACTER = 100
_SPECIAL = re.compile("(" + "|".join(map(re.escape, SPECIALS)) + ")")
_PIECES = re.compile("|".join(map(re.escape, MERGED)) + "|.", re.DOTALL)

Messages = Sequence[Mapping[str, Any]]
Template = Callable[..., str]
"""From messages, tools and whether an answer is opened, and arguments by name, to a prompt."""


def encode(text: str) -> list[int]:
    """Ids of a text; special texts become special ids wherever they stand."""
    ids: list[int] = []
    for number, part in enumerate(_SPECIAL.split(text)):
        if number % 2:
            ids.append(SPECIALS.index(part))
        else:
            ids.extend(map(_id_of, _PIECES.findall(part)))
    return ids


def _id_of(piece: str) -> int:
    if piece in MERGED:
        return len(SPECIALS) + MERGED.index(piece)
    return _FIRST_CHARACTER + ord(piece)


def piece_of(token_id: int) -> str:
    """The text of one id; some have none."""
    if token_id < len(SPECIALS):
        return SPECIALS[token_id]
    if token_id < len(SPECIALS) + len(MERGED):
        return MERGED[token_id - len(SPECIALS)]
    code = token_id - _FIRST_CHARACTER
    return chr(code) if 0 <= code < 0x110000 else ""


def decode(ids: Sequence[int]) -> str:
    """The text of ids."""
    return "".join(map(piece_of, ids))


def chatml(messages: Messages, tools: Sequence[Mapping[str, Any]], generation_prompt: bool) -> str:
    """ChatML with Hermes tools; like Qwen3's it drops the reasoning of turns before the last
    user's.
    """
    last_user = max((at for at, one in enumerate(messages) if one["role"] == "user"), default=-1)
    text = f"<tools>{json.dumps(list(tools))}</tools>" if tools else ""
    for at, message in enumerate(messages):
        content = (message.get("content") or "") + _hermes(message.get("tool_calls", ()))
        role = message["role"]
        if role == "assistant" and at < last_user:
            content = content.split("</think>")[-1].lstrip("\n")
        if role == "tool":
            first = at == 0 or messages[at - 1]["role"] != "tool"
            final = at + 1 == len(messages) or messages[at + 1]["role"] != "tool"
            text += "<|im_start|>user" if first else ""
            text += f"\n<tool_response>\n{content}\n</tool_response>"
            text += "<|im_end|>\n" if final else ""
        else:
            text += f"<|im_start|>{role}\n{content}<|im_end|>\n"
    return text + ("<|im_start|>assistant\n" if generation_prompt else "")


def _hermes(calls: Sequence[Mapping[str, Any]]) -> str:
    functions = [one["function"] for one in calls]
    return "\n".join(
        f'<tool_call>\n{{"name": "{one["name"]}", "arguments": {one["arguments"]}}}\n</tool_call>'
        for one in functions
    )


def hermes(name: str, **arguments: Any) -> str:
    """A tool call as a model writes it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def thinking(messages: Messages, tools: Sequence[Mapping[str, Any]], generation: bool) -> str:
    """ChatML whose generation prompt opens the reasoning."""
    return chatml(messages, tools, generation) + ("<think>\n" if generation else "")


def role_ended(messages: Messages, tools: Sequence[Mapping[str, Any]], generation: bool) -> str:
    """No end token: a turn ends where the next role begins, as in GLM's template."""
    opening = {"system": "<|endoftext|>", "user": "<|im_start|>"}
    text = "".join(
        f"{opening.get(message['role'], '<|' + message['role'] + '|>')}{message['content']}"
        for message in messages
    )
    return text + ("<|assistant|>" if generation else "")


def escaping(messages: Messages, tools: Sequence[Mapping[str, Any]], generation: bool) -> str:
    """ChatML that writes tool results as HTML-safe JSON: nothing special can come of them."""
    safe = [
        dict(one, content=json.dumps(one["content"]).replace("<", "\\u003c"))
        if one["role"] == "tool"
        else one
        for one in messages
    ]
    return chatml(safe, tools, generation)


def duplicating(messages: Messages, tools: Sequence[Mapping[str, Any]], generation: bool) -> str:
    """ChatML that shows every tool result twice."""
    twice = [
        dict(one, content=one["content"] * 2) if one["role"] == "tool" else one for one in messages
    ]
    return chatml(twice, tools, generation)


def bracketed(messages: Messages, tools: Sequence[Mapping[str, Any]], generation: bool) -> str:
    """ChatML with calls in a form of its own: `[CALL name {...}]`."""
    written = []
    for message in messages:
        calls = [one["function"] for one in message.get("tool_calls", ())]
        text = "".join(f"[CALL {one['name']} {one['arguments']}]" for one in calls)
        content = (message.get("content") or "") + text
        written.append({"role": message["role"], "content": content})
    return chatml(written, tools, generation)


class TemplateError(Exception):
    """What a template refuses; the server answers 400."""


def needing_calls(messages: Messages, tools: Sequence[Mapping[str, Any]], generation: bool) -> str:
    """ChatML that wants to know which call a tool result belongs to."""
    known: set[str] = set()
    for message in messages:
        known.update(call["id"] for call in message.get("tool_calls", ()))
        if message["role"] == "tool" and message.get("tool_call_id") not in known:
            raise TemplateError("a tool result without its call")
    return chatml(messages, tools, generation)
