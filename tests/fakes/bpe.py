"""A byte-level BPE tokenizer, learnt from the chat templates when it is made.

As with the real ones: special texts are single ids wherever they stand, the cut of other text
depends on what is around it, several id lists have the same text, and one id may be part of a
character. So text that is decoded and encoded again mostly comes back as other ids.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

_WORDS = re.compile(r" ?\w+| ?[^\w\s]+|\s+(?!\S)|\s+")


class Tokenizer:
    """Ids 0 to 255 are bytes, then come `specials`, then `merges` pairs in the order learnt."""

    def __init__(self, corpus: str, *, specials: Sequence[str], merges: int) -> None:
        self.specials = tuple(specials)
        self._special = re.compile("(" + "|".join(map(re.escape, specials)) + ")")
        self._special_ids = {text: 256 + at for at, text in enumerate(specials)}
        plain = " ".join(self._special.split(corpus)[::2])
        self._ranks = _learn(plain, first=256 + len(specials), count=merges)
        self._bytes = [bytes([one]) for one in range(256)]
        self._bytes += [text.encode() for text in specials]
        for left, right in self._ranks:
            self._bytes.append(self._bytes[left] + self._bytes[right])
        self._word = lru_cache(maxsize=50_000)(self._merged)

    @property
    def ordinary(self) -> list[int]:
        """Every id that is not special."""
        return [one for one in range(len(self._bytes)) if not self.is_special(one)]

    def is_special(self, token_id: int) -> bool:
        """Whether it is the id of a special text."""
        return 256 <= token_id < 256 + len(self.specials)

    def id_of(self, special: str) -> int:
        """Id of a special text."""
        return self._special_ids[special]

    def encode(self, text: str) -> list[int]:
        """Ids of a text."""
        ids: list[int] = []
        for number, part in enumerate(self._special.split(text)):
            if number % 2:
                ids.append(self._special_ids[part])
            else:
                for word in _WORDS.findall(part):
                    ids.extend(self._word(word))
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids; bytes that are no UTF-8 become U+FFFD."""
        return b"".join(self._bytes[one] for one in ids).decode(errors="replace")

    def piece_of(self, token_id: int) -> str:
        """The vocabulary's string of an id; a space and other bytes have signs of their own."""
        if self.is_special(token_id):
            return self.specials[token_id - 256]
        return "".join(
            chr(one) if 32 < one < 127 else chr(256 + one) for one in self._bytes[token_id]
        )

    def _merged(self, word: str) -> tuple[int, ...]:
        ids = list(word.encode())
        while True:
            ranked = [self._ranks.get(pair, 1 << 30) for pair in pairwise(ids)]
            best = min(ranked, default=1 << 30)
            if best == 1 << 30:
                return tuple(ids)
            at = ranked.index(best)
            ids[at : at + 2] = [256 + len(self.specials) + best]


def _learn(corpus: str, *, first: int, count: int) -> dict[tuple[int, int], int]:
    """The most frequent pairs, one after the other, with their rank."""
    words = Counter(_WORDS.findall(corpus))
    cut = {word: list(word.encode()) for word in words}
    ranks: dict[tuple[int, int], int] = {}
    for rank in range(count):
        pairs = Counter[tuple[int, int]]()
        for word, ids in cut.items():
            for pair in pairwise(ids):
                pairs[pair] += words[word]
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        ranks[best] = rank
        for ids in cut.values():
            _replace(ids, best, first + rank)
    return ranks


def _replace(ids: list[int], pair: tuple[int, int], merged: int) -> None:
    at = 0
    while at + 1 < len(ids):
        if (ids[at], ids[at + 1]) == pair:
            ids[at : at + 2] = [merged]
        at += 1
