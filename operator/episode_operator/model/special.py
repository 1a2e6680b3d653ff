"""Special tokens that are only text: found in messages and kept from becoming special ids.

A tool may print `<|im_end|>`, and a chat template would let that end the message. Here every such
occurrence is replaced by ids of the same text that hold no special id. It needs no knowledge of the
tokenizer: which texts are special is found out through /tokenize.
"""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from episode_operator.model.client import Message, VllmClient
from episode_operator.model.errors import RenderMismatch

Render = Callable[[Sequence[Message]], Awaitable[list[int]]]

_MAYBE_SPECIAL = re.compile(r"[<\[◁｜][^\s]{1,80}?[>\]▷｜]|<[|｜][^\n]{1,80}?[|｜]>")
"""What special tokens look like; a cheap test that spares most texts a request."""

DATA_ROLES = frozenset({"system", "developer", "user", "tool"})
"""Roles whose content is data. Assistant messages may hold `<think>` and calls of their own right.
"""


@dataclass(frozen=True, kw_only=True)
class SpecialText:
    """A text that the tokenizer turns into one special id, and harmless ids of the same text."""

    text: str
    token_id: int
    harmless: tuple[int, ...]

    @property
    def broken(self) -> str:
        """Nearly the same text, which is not special."""
        return f"{self.text[:1]} {self.text[1:]}"


class SpecialTokens:
    """The special texts of one model, learnt as they turn up."""

    def __init__(self, client: VllmClient) -> None:
        self._client = client
        self._known: dict[int, SpecialText | None] = {}

    async def is_special(self, text: str, token_id: int) -> bool:
        """Whether `text` becomes `token_id` wherever it stands.

        An ordinary token merges with its neighbours: "[0]" inside "[[0]]" is cut elsewhere.
        """
        if len(text) < 3 or not _MAYBE_SPECIAL.fullmatch(text):
            return False
        ids = await self._client.tokenize(f"x{text[0]}{text}{text[-1]}x")
        return ids.count(token_id) == 1

    async def in_text(self, text: str) -> list[SpecialText]:
        """The special texts in `text`, in order, one entry for every occurrence."""
        if not _MAYBE_SPECIAL.search(text):
            return []
        ids, strings = await self._client.tokenize_pieces(text)
        found = []
        for token_id, string in zip(ids, strings, strict=True):
            if token_id not in self._known:
                self._known[token_id] = await self._learn(token_id, string, text)
            special = self._known[token_id]
            if special is not None:
                found.append(special)
        return found

    async def _learn(self, token_id: int, string: str, text: str) -> SpecialText | None:
        if string not in text or not await self.is_special(string, token_id):
            return None
        harmless = (
            *await self._client.tokenize(string[:1]),
            *await self._client.tokenize(string[1:]),
        )
        if token_id in harmless:
            raise RenderMismatch(f"{string!r} cannot be written without its special id")
        return SpecialText(text=string, token_id=token_id, harmless=harmless)

    async def neutralised(
        self, ids: list[int], messages: Sequence[Message], render: Render
    ) -> list[int]:
        """`ids`, the rendering of `messages`, with every special id that came from their content
        replaced. `render` renders the same prompt with other contents.
        """
        replacements: dict[int, tuple[int, ...]] = {}
        for number, message in enumerate(messages):
            content = message.get("content")
            if message.get("role") not in DATA_ROLES or not isinstance(content, str):
                continue
            specials = await self.in_text(content)
            if specials:
                changed = dict(message, content=_break_all(content, specials))
                probe = await render([*messages[:number], changed, *messages[number + 1 :]])
                replacements.update(_locate(ids, probe, specials))
        if not replacements:
            return ids
        return [
            new for position, old in enumerate(ids) for new in replacements.get(position, (old,))
        ]


def _break_all(content: str, specials: Sequence[SpecialText]) -> str:
    for special in specials:
        content = content.replace(special.text, special.broken)
    return content


def _locate(
    ids: list[int], probe: list[int], specials: Sequence[SpecialText]
) -> Mapping[int, tuple[int, ...]]:
    """Where in `ids` the special ids of one message's content stand.

    `probe` is the same prompt with that content's special texts broken. The two differ only around
    these: a special text always cuts what is around it. So of the ids between the first difference
    and the last, exactly the content's are special. More of them show that something else differs,
    such as the template's date at midnight.
    """
    missing = Counter(ids)
    missing.subtract(Counter(probe))
    wanted = Counter(special.token_id for special in specials)
    counts: dict[Any, int] = {token_id: missing[token_id] for token_id in wanted}
    if not any(counts.values()):
        return {}  # the template escapes the content: nothing special came of it
    start = _agree(ids, probe)
    end = len(ids) - _agree(ids[::-1], probe[::-1])
    between = {token_id: ids[start:end].count(token_id) for token_id in wanted}
    if not counts == between == dict(wanted):
        raise RenderMismatch(
            "the chat template changes message contents in a way that hides which special tokens "
            f"came from them (expected {dict(wanted)}, found {counts}, {between} in one place)"
        )
    position = start
    places: dict[int, tuple[int, ...]] = {}
    for special in specials:
        position = ids.index(special.token_id, position)
        places[position] = special.harmless
        position += 1
    return places


def _agree(first: Sequence[int], second: Sequence[int]) -> int:
    """How many ids both begin with."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))
