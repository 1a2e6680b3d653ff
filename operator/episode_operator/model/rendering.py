"""Prompts as ids: the first one whole, later ones only what is new, through the render endpoint.

What is new is found without a tokenizer and without rendering the history again (which would not
give back the ids that were sampled): the new messages are rendered behind two different assistant
answers, and what both renderings end with is what follows an assistant turn.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from episode_operator.model.client import Message, VllmClient
from episode_operator.model.errors import ModelBadRequest, RenderMismatch
from episode_operator.model.special import SpecialTokens

PLACEHOLDERS = ("Alpha", "Bravo")
"""Answers that do not end with the same character, and so with no common token."""


def common_suffix(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """The longest list of ids that both end with."""
    length = 0
    for one, other in zip(reversed(first), reversed(second), strict=False):
        if one != other:
            break
        length += 1
    return list(first[len(first) - length :])


def after_turn(suffix: Sequence[int], *, last: int | None, end_token: int | None) -> list[int]:
    """Of `suffix`, what follows an assistant's text, the part that a turn has not sampled itself.

    `last` is the id that ended the turn, None when the turn was cut off. A turn that sampled its
    end is followed by what stands behind it; one that did not by the template's own end token too.
    That covers templates whose turns end with the next role's token as well.
    """
    if last is not None and last in suffix:
        return list(suffix[suffix.index(last) + 1 :])
    if end_token is not None:
        if end_token not in suffix:
            raise RenderMismatch("the chat template writes no end token after this assistant turn")
        return list(suffix[suffix.index(end_token) :])
    return list(suffix)


class Renderer:
    """Renders the prompts of one conversation; `tools` and `template_arguments` never change.

    Text of special tokens in system, user and tool messages stays text (see `special`).
    """

    def __init__(
        self,
        client: VllmClient,
        *,
        end_token: int | None,
        tools: Sequence[Mapping[str, Any]] = (),
        template_arguments: Mapping[str, Any] | None = None,
        specials: SpecialTokens | None = None,
    ) -> None:
        self._client = client
        self._end_token = end_token
        self._tools = tools
        self._template_arguments = template_arguments
        self._specials = specials if specials is not None else SpecialTokens(client)

    async def first(self, messages: Sequence[Message]) -> list[int]:
        """Ids of the whole first prompt."""
        return await self._specials.neutralised(
            await self._render(messages), messages, self._render
        )

    async def following(self, messages: Sequence[Message], *, last: int | None) -> list[int]:
        """Ids to insert after a sampled turn: the end of the turn where it lacks one, the
        template's tail, `messages` and the opening of the next answer.

        `last` is the id the turn ended with, None when it was cut off. All tool results of a turn
        belong in one call. Raises RenderMismatch when the template does not let itself be cut.
        """
        try:
            return await self._following(messages, last=last, calls=())
        except ModelBadRequest:
            # Some templates look up in the calls before it which tool a result belongs to.
            calls = _placeholder_calls(messages)
            if not calls:
                raise
            return await self._following(messages, last=last, calls=calls)

    async def _following(
        self, messages: Sequence[Message], *, last: int | None, calls: Sequence[Mapping[str, Any]]
    ) -> list[int]:
        def behind(answer: str, new: Sequence[Message]) -> list[Message]:
            assistant: dict[str, Any] = {"role": "assistant", "content": answer}
            if calls:
                assistant["tool_calls"] = list(calls)
            return [{"role": "user", "content": "Hello."}, assistant, *new]

        async def render(new: Sequence[Message]) -> list[int]:
            return await self._render(behind(PLACEHOLDERS[0], new))

        first, second = await asyncio.gather(
            render(messages), self._render(behind(PLACEHOLDERS[1], messages))
        )
        suffix = common_suffix(first, second)
        if not suffix or len(suffix) == len(first):
            raise RenderMismatch("the chat template does not render the assistant's text")
        offset = len(first) - len(suffix)

        async def render_suffix(new: Sequence[Message]) -> list[int]:
            return (await render(new))[offset:]

        harmless = await self._specials.neutralised(suffix, messages, render_suffix)
        return after_turn(harmless, last=last, end_token=self._end_token)

    async def _render(self, messages: Sequence[Message]) -> list[int]:
        return await self._client.render(
            messages, tools=self._tools, template_arguments=self._template_arguments
        )


def _placeholder_calls(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Calls that `messages` could be the results of."""
    return [
        {
            "id": message.get("tool_call_id", f"call_{number}"),
            "type": "function",
            "function": {"name": message.get("name", "tool"), "arguments": "{}"},
        }
        for number, message in enumerate(messages)
        if message.get("role") == "tool"
    ]
