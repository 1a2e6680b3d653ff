"""Special text in messages never becomes a special id, whatever the messages say."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from episode_operator.model.client import VllmClient
from episode_operator.model.special import SpecialTokens
from tests.fakes import chat

pieces = st.sampled_from([*chat.SPECIALS, *chat.MERGED, "<", ">", "|", "[", "x", " ", "\n", "é"])
contents = st.lists(pieces, max_size=8).map("".join)
conversations = st.lists(
    st.tuples(st.sampled_from(["system", "user", "tool"]), contents), min_size=1, max_size=4
)


class Tokenizer:
    """The part of the client that looks up texts, without a server."""

    def __init__(self) -> None:
        self.lookups = 0

    async def tokenize(self, text: str) -> list[int]:
        return (await self.tokenize_pieces(text))[0]

    async def tokenize_pieces(self, text: str) -> tuple[list[int], list[str]]:
        self.lookups += 1
        ids = chat.encode(text)
        return ids, [chat.piece_of(one) for one in ids]


async def render(messages: Sequence[Any]) -> list[int]:
    return chat.encode(chat.chatml(messages, [], True))


def neutralised(tokenizer: Tokenizer, messages: Sequence[Any]) -> list[int]:
    async def run() -> list[int]:
        specials = SpecialTokens(cast(VllmClient, tokenizer))
        return await specials.neutralised(await render(messages), messages, render)

    return asyncio.run(run())


def special_ids(ids: Sequence[int]) -> list[int]:
    return [one for one in ids if one < len(chat.SPECIALS)]


@given(conversations)
@settings(deadline=None)
def test_text_is_kept_and_only_the_template_writes_special_ids(
    spoken: list[tuple[str, str]],
) -> None:
    messages = [{"role": role, "content": content} for role, content in spoken]
    blank = [{"role": role, "content": ""} for role, _ in spoken]
    ids = neutralised(Tokenizer(), messages)
    assert chat.decode(ids) == chat.chatml(messages, [], True)
    assert special_ids(ids) == special_ids(chat.encode(chat.chatml(blank, [], True)))


def test_plain_text_asks_nothing() -> None:
    tokenizer = Tokenizer()
    messages = [{"role": "tool", "content": "total 0\n-rw-r--r-- 1 root a > b"}]
    assert neutralised(tokenizer, messages) == chat.encode(chat.chatml(messages, [], True))
    assert tokenizer.lookups == 0


def test_the_models_own_words_are_left_alone() -> None:
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "<think>y</think>"},
    ]
    assert neutralised(Tokenizer(), messages) == chat.encode(chat.chatml(messages, [], True))
