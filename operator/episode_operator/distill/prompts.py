"""The prompt the teacher sees: the row's own ids, and one block of them rendered anew with a hint.

The row is blocks: insert_0, sample_0, insert_1, sample_1, ... The hint goes into one insert block
at or before the turn. Only that block is rendered, by the policy's server as the conversation did;
all other ids are copied from the row. First the block is rendered without the hint and must give
the recorded ids: else the server renders otherwise than it did, and no score would mean anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from episode_operator.api.distillation import HintPlacement
from episode_operator.distill.rollout import Rollout
from episode_operator.model.capabilities import Capabilities
from episode_operator.model.client import VllmClient
from episode_operator.model.errors import RenderMismatch
from episode_operator.model.rendering import Renderer
from episode_operator.model.special import SpecialTokens

HEADING = "[user's hint / instruction]"


class Policy(Protocol):
    """The model that sampled the rollout, on its server."""

    @property
    def client(self) -> VllmClient:
        """Renders and decodes."""

    @property
    def capabilities(self) -> Capabilities:
        """Tells the end token."""

    @property
    def specials(self) -> SpecialTokens:
        """Keeps special text in a hint from becoming special ids."""


@dataclass(frozen=True, kw_only=True)
class HintedPrompt:
    """`token_ids` [n] end with the ids that the turn sampled; those start at `first`."""

    token_ids: list[int]
    first: int


class HintedPrompts:
    """Makes the prompts of one rollout's turns. Safe for concurrent use."""

    def __init__(self, rollout: Rollout, policy: Policy, placement: HintPlacement) -> None:
        self._rollout = rollout
        self._placement = placement
        self._end_token = policy.capabilities.end_token
        self._client = policy.client
        self._renderer = Renderer(
            policy.client,
            end_token=policy.capabilities.end_token,
            tools=rollout.tools,
            specials=policy.specials,
        )

    async def response(self, turn: int) -> str:
        """What the policy said in `turn`: its sampled ids as text, without the end token."""
        span = self._rollout.sampled(turn)
        ids = self._rollout.tokens[span.start : span.stop].tolist()
        if ids[-1] == self._end_token:
            del ids[-1]
        return await self._client.detokenize(ids)

    async def prompt(self, turn: int, hint: str) -> HintedPrompt:
        """The prompt of `turn` with `hint` in it, and the turn.

        Raises RenderMismatch when the recorded messages no longer give the recorded ids, or the
        hint has no place; or another ModelError.
        """
        block = self._block(turn)
        hinted = with_hint(self._rollout.prompt_messages(block), hint, self._placement)
        replaced = self._rollout.inserted(block)
        recorded = self._ids(replaced)
        rendered = await self._render(block, recorded=recorded, hinted=hinted)
        if rendered == recorded:
            raise RenderMismatch("the chat template does not show the hint")
        sampled = self._rollout.sampled(turn)
        between = self._ids(range(replaced.stop, sampled.start))
        before = [*self._ids(range(replaced.start)), *rendered, *between]
        return HintedPrompt(token_ids=[*before, *self._ids(sampled)], first=len(before))

    def _ids(self, span: range) -> list[int]:
        ids: list[int] = self._rollout.tokens[span.start : span.stop].tolist()
        return ids

    def _block(self, turn: int) -> int:
        """The turn whose inserted ids take the hint."""
        if self._placement is HintPlacement.BEFORE_TURN:
            return turn
        for block in range(turn, -1, -1):
            if any(one.get("role") == "user" for one in self._rollout.prompt_messages(block)):
                return block
        raise RenderMismatch(
            "there is no user message at or before the turn: use hintPlacement BeforeTurn"
        )

    async def _render(
        self, block: int, *, recorded: list[int], hinted: Sequence[Mapping[str, Any]]
    ) -> list[int]:
        """The block's ids with the hint, after it was seen to render as recorded without."""
        plain = self._rollout.prompt_messages(block)
        if block == 0:
            if await self._renderer.first(plain) == recorded:
                return await self._renderer.first(hinted)
        else:
            # The row does not say whether the turn before ended by itself or was cut off: the one
            # of the two that gives the recorded ids did happen.
            for last in (int(self._rollout.tokens[self._rollout.sampled(block - 1)[-1]]), None):
                if await self._renderer.following(plain, last=last) == recorded:
                    return await self._renderer.following(hinted, last=last)
        raise RenderMismatch(
            f"the messages before turn {block} do not render to the recorded ids: the server's "
            "chat template or tokenizer is another than when the episode ran"
        )


def with_hint(
    messages: Sequence[Mapping[str, Any]], hint: str, placement: HintPlacement
) -> list[dict[str, Any]]:
    """The messages of one block with the hint in their last user message, or in one of its own."""
    copied = [dict(message) for message in messages]
    users = [at for at, message in enumerate(copied) if message.get("role") == "user"]
    if placement is HintPlacement.BEFORE_TURN and users[-1:] != [len(copied) - 1]:
        return [*copied, {"role": "user", "content": f"{HEADING}\n{hint}"}]
    content = copied[users[-1]].get("content")
    if not isinstance(content, str):
        raise RenderMismatch("the user message that would take the hint is no text")
    copied[users[-1]]["content"] = f"{content}\n\n{HEADING}\n{hint}"
    return copied
