"""What tests of distillation share: a rollout from a conversation, and an independent reference."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from episode_operator.api.distillation import HintPlacement
from episode_operator.distill import Rollout
from episode_operator.model import Conversation, VllmClient


def rollout_of(
    conversation: Conversation, tools: Sequence[dict[str, Any]] = (), **student: Any
) -> Rollout:
    """What would be recorded of a conversation."""
    row = conversation.row()
    return Rollout(
        tokens=row.tokens,
        mask=row.mask,
        turn=row.turn,
        logprobs=row.logprobs,
        messages=conversation.messages,
        tools=tools,
        **student,
    )


async def prompts_by_hand(
    client: VllmClient, rollout: Rollout, placement: HintPlacement, hints: Mapping[int, str]
) -> dict[int, list[int]]:
    """The prompts of a ChatML model with each turn's hint, made of the row's text: the hint is put
    into the decoded text of one block, and only that block is tokenized again.
    """
    blocks, answers = (
        [rollout.tokens[span.start : span.stop].tolist() for span in spans]
        for spans in (
            [rollout.inserted(turn) for turn in range(rollout.turns)],
            [rollout.sampled(turn) for turn in range(rollout.turns)],
        )
    )
    roles = [
        [message["role"] for message in rollout.prompt_messages(turn)]
        for turn in range(rollout.turns)
    ]
    built = {}
    for turn, hint in hints.items():
        block = turn
        if placement is HintPlacement.LAST_USER_MESSAGE:
            block = max(at for at in range(turn + 1) if "user" in roles[at])
        text = await client.detokenize(blocks[block])
        replaced = await client.tokenize(_with_hint(text, hint, own=roles[block][-1] != "user"))
        prompt: list[int] = []
        for at in range(turn + 1):
            prompt += replaced if at == block else blocks[at]
            prompt += answers[at] if at < turn else []
        built[turn] = prompt
    return built


def _with_hint(text: str, hint: str, *, own: bool) -> str:
    """A block's text with the hint: in a message of its `own`, or at the end of its last one."""
    heading = f"[user's hint / instruction]\n{hint}"
    if own:
        opening = "<|im_start|>assistant\n"
        assert text.endswith(opening)
        before = text.removesuffix(opening)
        return f"{before}<|im_start|>user\n{heading}<|im_end|>\n{opening}"
    before, end, after = text.rpartition("<|im_end|>")
    return f"{before}\n\n{heading}{end}{after}"


class Values(Protocol):
    """The teacher's values, as `distill` gives them or a payload holds them."""

    @property
    def positions(self) -> NDArray[np.int32]:
        """int32[m]."""

    @property
    def sampled_logprobs(self) -> NDArray[np.float32]:
        """float32[m]."""


async def wrong_values(
    distilled: Values,
    rollout: Rollout,
    prompts: Mapping[int, Sequence[int]],
    client: VllmClient,
    *,
    tolerance: float,
) -> list[str]:
    """Where `distilled` differs from plain prompt_logprobs of prompts that were built by hand.

    `prompts` holds, for each turn that must be scored, the prompt with the hint up to the turn.
    """
    positions = [at for turn in sorted(prompts) for at in rollout.sampled(turn)]
    if distilled.positions.tolist() != positions:
        return [f"positions {distilled.positions.tolist()}, not {positions}"]
    wrong = []
    offset = 0
    for turn, prompt in sorted(prompts.items()):
        span = rollout.sampled(turn)
        own = rollout.tokens[span.start : span.stop].tolist()
        scores = await client.score([*prompt, *own])
        expected = scores[len(prompt) - 1 :]
        found = distilled.sampled_logprobs[offset : offset + len(span)]
        difference = np.abs(found - expected).max()
        if difference > tolerance:
            wrong.append(f"turn {turn} differs by {difference}")
        offset += len(span)
    return wrong
