"""One step: the gradient of a whole batch in micro-batches, and what there is to tell of it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch  # type: ignore[import-not-found]
from numpy.typing import NDArray

from examples.trainer import losses
from examples.trainer.advantages import token_advantages
from examples.trainer.errors import TrainerError
from examples.trainer.options import Options
from examples.trainer.policy import micro_batches, sampled_logits
from examples.trainer.rows import Row, scored_positions

GRADIENT_NORM: Final = 1.0


@dataclass(kw_only=True)
class Pass:
    """What one pass over a batch, before its update, has shown.

    Attributes:
        surrogate: mean over all sampled tokens.
        distillation: mean top-k KL over all scored positions, not weighted; None if not computed.
        log_ratios: float32 of all sampled tokens, in no particular order.
        clipped: how many of them the clip has taken the gradient of.
        gradient_norm: before it was cut to 1.
        compute_seconds, optimizer_seconds: wall-clock.
    """

    surrogate: float = 0.0
    distillation: float | None = None
    log_ratios: list[Any] = field(default_factory=list)
    clipped: int = 0
    gradient_norm: float = 0.0
    compute_seconds: float = 0.0
    optimizer_seconds: float = 0.0

    @property
    def log_ratio(self) -> Any:
        """float32[sampled tokens]."""
        return torch.cat(self.log_ratios)


def update(model: Any, optimizer: Any, rows: Sequence[Row], options: Options) -> list[Pass]:
    """Take one optimizer step for each epoch; the first pass is before any of them.

    Raises:
        TrainerError: a loss or gradient is not finite; the model is as before that epoch.
    """
    passes = []
    for _ in range(options.epochs):
        began = time.monotonic()
        one = accumulate(model, rows, options)
        computed = time.monotonic()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), GRADIENT_NORM)
        one.gradient_norm = float(norm)
        if not np.isfinite([one.surrogate, one.distillation or 0.0, one.gradient_norm]).all():
            raise TrainerError("the loss or its gradient is not finite; lower --learning-rate")
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        one.compute_seconds = computed - began
        one.optimizer_seconds = time.monotonic() - computed
        passes.append(one)
    return passes


def accumulate(model: Any, rows: Sequence[Row], options: Options) -> Pass:
    """Add the gradient of the whole batch's loss; how the batch is cut changes nothing."""
    with_kl = options.opd_loss == "topk-kl"
    advantages = token_advantages(
        rows,
        reward_weight=options.reward_weight,
        teacher_weight=0.0 if with_kl else options.opd_weight,
        teacher_clip=options.opd_clip,
    )
    sampled = sum(int(row.sampled.sum()) for row in rows)
    scored = scored_positions(rows)
    with_kl = with_kl and scored > 0 and options.opd_weight != 0
    one = Pass(distillation=0.0 if with_kl else None)
    for indices, prefix in micro_batches(model, rows, options.micro_batch):
        some = [rows[index] for index in indices]
        logits = sampled_logits(model, some, prefix)
        loss = _surrogate(logits, some, [advantages[index] for index in indices], options, one)
        loss = loss / sampled
        one.surrogate += loss.item()
        if with_kl:
            divergence = _divergence(logits, some) / scored
            one.distillation = (one.distillation or 0.0) + divergence.item()
            loss = loss + options.opd_weight * divergence
        loss.backward()
    return one


def _surrogate(
    logits: Any,
    rows: Sequence[Row],
    advantages: Sequence[NDArray[np.float32]],
    options: Options,
    told: Pass,
) -> Any:
    """Its sum over the sampled tokens of the rows."""
    device = logits.device
    tokens = np.concatenate([row.tokens[row.sampled] for row in rows])
    at_sampling = np.concatenate([row.logprobs[row.sampled] for row in rows])
    advantage = torch.from_numpy(np.concatenate(advantages)).to(device)
    new = losses.token_logprobs(logits, torch.from_numpy(tokens).to(device))
    log_ratio = new - torch.from_numpy(at_sampling).to(device)
    bounds = {"low": options.clip_low, "high": options.clip_high}
    told.log_ratios.append(log_ratio.detach())
    told.clipped += int(losses.is_clipped(log_ratio.detach(), advantage, **bounds).sum())
    return losses.clipped_surrogate(log_ratio, advantage, **bounds).sum()


def _divergence(logits: Any, rows: Sequence[Row]) -> Any:
    """The sum of the top-k KL over the scored positions of the rows."""
    total, start = logits.new_zeros(()), 0
    for row in rows:
        sampled = np.flatnonzero(row.sampled)
        if row.teacher is not None:
            at = start + np.searchsorted(sampled, row.teacher.positions)
            total = total + losses.top_k_kl(logits[torch.from_numpy(at)], row.teacher).sum()
        start += sampled.size
    return total
