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


def common_prefix(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """The longest list of ids that both begin with."""
    return common_suffix(first[::-1], second[::-1])[::-1]


def after_turn(
    suffix: Sequence[int], *, closing: Sequence[int], last: int | None, end_token: int | None
) -> list[int]:
    """Of `suffix`, what follows an assistant's text, the part that a turn has not sampled itself.

    `closing` is what follows it where the conversation ends there. `last` is the id that ended the
    turn, None when the turn was cut off. A turn that ended by itself is closed: by the id that it
    sampled, which stands in the place of the template's end token if it is another
    (`<|eom_id|>`). A turn that was cut off gets the template's.
    """
    end = list(common_prefix(suffix, closing))
    if end_token is None:  # the next role's token ends a turn
        end = list(suffix[: len(end) + 1])
        return list(suffix if last not in end else suffix[end.index(last) + 1 :])
    if end_token not in end:
        raise RenderMismatch("the chat template writes no end token after this assistant turn")
    if last is None:
        return list(suffix[end.index(end_token) :])
    return list(suffix[end.index(last if last in end else end_token) + 1 :])


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
        self._plain_closing: list[int] | None = None

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
        async def behind(new: Sequence[Message]) -> list[int]:
            return await self._behind_answer(calls, new, generation_prompt=True)

        return after_turn(
            await self._specials.neutralised(await behind(messages), messages, behind),
            closing=await self._closing(calls),
            last=last,
            end_token=self._end_token,
        )

    async def _closing(self, calls: Sequence[Mapping[str, Any]]) -> list[int]:
        """What stands behind an answer that nothing follows."""
        if not calls and self._plain_closing is not None:
            return self._plain_closing
        closing = await self._behind_answer(calls, (), generation_prompt=False)
        if not calls:
            self._plain_closing = closing
        return closing

    async def _behind_answer(
        self,
        calls: Sequence[Mapping[str, Any]],
        messages: Sequence[Message],
        *,
        generation_prompt: bool,
    ) -> list[int]:
        """What stands behind an answer with `calls` that `messages` follow."""
        first, second = await asyncio.gather(
            *(
                self._render(
                    _dialogue(answer, calls, messages), generation_prompt=generation_prompt
                )
                for answer in PLACEHOLDERS
            )
        )
        suffix = common_suffix(first, second)
        if len(suffix) == len(first) or (generation_prompt and not suffix):
            raise RenderMismatch("the chat template does not render the assistant's text")
        return suffix

    async def _render(
        self, messages: Sequence[Message], *, generation_prompt: bool = True
    ) -> list[int]:
        return await self._client.render(
            messages,
            tools=self._tools,
            template_arguments=self._template_arguments,
            generation_prompt=generation_prompt,
        )


def _dialogue(
    answer: str, calls: Sequence[Mapping[str, Any]], new: Sequence[Message]
) -> list[Message]:
    assistant: dict[str, Any] = {"role": "assistant", "content": answer}
    if calls:
        assistant["tool_calls"] = list(calls)
    return [{"role": "user", "content": "Hello."}, assistant, *new]


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
