"""What distillation is asked for, and what it gives."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from episode_operator.api.distillation import HintPlacement, TurnOutcome
from episode_operator.distill.rollout import Rollout
from episode_operator.distill.votes import Vote


@dataclass(frozen=True, kw_only=True)
class Config:
    """What is asked for: `top_k` tokens per position, the hint's `placement`, with `student_top_k`
    also the values of the student's recorded top-k; within `max_teacher_tokens` tokens of all
    prompts together. `next_state_limit` in characters, per message.
    """

    top_k: int = 50
    placement: HintPlacement = HintPlacement.LAST_USER_MESSAGE
    student_top_k: bool = False
    max_teacher_tokens: int = 1_000_000
    next_state_limit: int = 4000


@dataclass(frozen=True, kw_only=True)
class TurnRecord:
    """What became of one turn and why. `positions` are the row positions that it sampled;
    `teacher_tokens` the tokens of the prompts that were sent to the teacher; `weights` the label of
    the teacher's weights that scored it, None where it has none or was not scored.
    """

    turn: int
    outcome: TurnOutcome
    message: str
    hint: str | None
    votes: list[Vote]
    teacher_tokens: int
    positions: range
    weights: str | None


@dataclass(frozen=True, kw_only=True)
class Distilled:
    """The teacher's values at the positions of all scored turns.

    positions int32[m], ascending row positions; token_ids int32[m,k] and logprobs float32[m,k]: the
    teacher's most likely tokens, descending; sampled_logprobs float32[m]: its value of the sampled
    id; student_topk_logprobs float32[c]: its values of the student's recorded top-k at
    `positions`, flat, None when not asked for; teacher_tokens: those of all turns.
    """

    turns: list[TurnRecord]
    positions: NDArray[np.int32]
    token_ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    sampled_logprobs: NDArray[np.float32]
    student_topk_logprobs: NDArray[np.float32] | None
    teacher_tokens: int

    def advantages(self, rollout: Rollout) -> NDArray[np.float32]:
        """A_t, float32[m]: the teacher's logprob of the sampled id less the student's own."""
        return self.sampled_logprobs - rollout.logprobs[self.positions]
