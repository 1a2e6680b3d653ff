"""A recorded episode as what distillation reads: its row of tokens and its messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """A row of n tokens and the messages it came from.

    tokens int32[n], mask bool[n] (true where sampled), turn int16[n], logprobs float32[n] as in
    `model.TokenRow`; `messages` the chat with one assistant message per turn, `tools` the tools'
    schemas; with the student's recorded top-k: counts int16[s] of the s sampled positions in order,
    ids int32[c] flat. Raises ValueError when these do not belong together.
    """

    tokens: NDArray[np.int32]
    mask: NDArray[np.bool_]
    turn: NDArray[np.int16]
    logprobs: NDArray[np.float32]
    messages: Sequence[dict[str, Any]]
    tools: Sequence[dict[str, Any]] = ()
    student_topk_counts: NDArray[np.int16] | None = None
    student_topk_token_ids: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        lengths = {len(one) for one in (self.tokens, self.mask, self.turn, self.logprobs)}
        if len(lengths) != 1:
            raise ValueError("tokens, mask, turn and logprobs have different lengths")
        if self.turns != len(self._assistants):
            raise ValueError(
                f"{self.turns} sampled turns and {len(self._assistants)} assistant messages"
            )
        # Turn by turn, and in each what was inserted before what was sampled.
        order = self.turn.astype(np.int64) * 2 + self.mask
        if np.any(np.diff(order) < 0):
            raise ValueError("turns are out of order, or inserted ids follow a turn's sampled ones")
        if any(not self.sampled(at) or self.sampled(at).start == 0 for at in range(self.turns)):
            raise ValueError("a turn has no sampled ids, or no prompt")
        counts, ids = self.student_topk_counts, self.student_topk_token_ids
        if (counts is None) != (ids is None):
            raise ValueError("the student's top-k has counts without ids, or ids without counts")
        if counts is None or ids is None:
            return
        if len(counts) != self.mask.sum() or counts.sum() != len(ids) or np.any(counts < 0):
            raise ValueError("counts of the student's top-k do not fit the row or the ids")

    @property
    def turns(self) -> int:
        """Turns that the policy sampled."""
        return int(self.turn[self.mask].max()) + 1 if self.mask.any() else 0

    @property
    def _assistants(self) -> list[int]:
        return [at for at, one in enumerate(self.messages) if one.get("role") == "assistant"]

    def inserted(self, turn: int) -> range:
        """Row positions of the prompt of `turn` behind the turn before it."""
        return self._span(turn, sampled=False)

    def sampled(self, turn: int) -> range:
        """Row positions that `turn` sampled."""
        return self._span(turn, sampled=True)

    def _span(self, turn: int, *, sampled: bool) -> range:
        found = np.flatnonzero((self.turn == turn) & (self.mask == sampled))
        return range(int(found[0]), int(found[-1]) + 1) if len(found) else range(0)

    def prompt_messages(self, turn: int) -> Sequence[dict[str, Any]]:
        """The messages that the ids inserted for `turn` were rendered from."""
        before = self._assistants[turn - 1] + 1 if turn else 0
        return self.messages[before : self._assistants[turn]]

    def next_state(self, turn: int) -> Sequence[dict[str, Any]]:
        """The messages behind `turn` up to the next assistant message or the end."""
        ends = [*self._assistants[1:], len(self.messages)]
        return self.messages[self._assistants[turn] + 1 : ends[turn]]

    def student_topk(self, turn: int) -> list[list[int]]:
        """The ids of the student's top-k at each sampled position of `turn`."""
        if self.student_topk_counts is None or self.student_topk_token_ids is None:
            raise ValueError("the student's top-k was not recorded")
        ends = np.cumsum(self.student_topk_counts.astype(np.int64))
        first = int(self.mask[: self.sampled(turn).start].sum())
        places = range(first, first + len(self.sampled(turn)))
        return [
            self.student_topk_token_ids[ends[at] - self.student_topk_counts[at] : ends[at]].tolist()
            for at in places
        ]


def next_state_text(messages: Sequence[dict[str, Any]], *, limit: int) -> tuple[str, str] | None:
    """(text, role) of a next state, each message cut to `limit` characters; None without text.

    The role names all roles of the messages, in their order.
    """
    texts, roles = [], []
    for message in messages:
        content = message.get("content")
        if isinstance(content, str) and content.strip():
            cut = content if len(content) <= limit else f"{content[:limit]}\n[cut]"
            texts.append(cut)
            roles.append(str(message.get("role")))
    if not texts:
        return None
    return "\n\n".join(texts), " and ".join(dict.fromkeys(roles))
