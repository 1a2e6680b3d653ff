"""The losses, for the s sampled tokens of some rows: each gives one value per token or position."""

from typing import Any

import torch  # type: ignore[import-not-found]

from examples.trainer.rows import Teacher


def token_logprobs(logits: Any, tokens: Any) -> Any:
    """Log-probabilities of tokens int64[s] under logits float32[s, vocabulary]: float32[s]."""
    return -torch.nn.functional.cross_entropy(logits, tokens, reduction="none")


def clipped_surrogate(log_ratio: Any, advantages: Any, *, low: float, high: float) -> Any:
    """GRPO's loss of a token: -min(ratio A, clip(ratio, 1 - low, 1 + high) A).

    Args:
        log_ratio: float32[s], new logprob - logprob at sampling time.
        advantages: float32[s].
        low, high: how far the ratio may go before its gradient ends.

    Returns:
        float32[s].
    """
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - low, 1 + high)
    return -torch.minimum(ratio * advantages, clipped * advantages)


def is_clipped(log_ratio: Any, advantages: Any, *, low: float, high: float) -> Any:
    """Where the clip has taken the gradient: bool[s]."""
    ratio = log_ratio.exp()
    return ((advantages > 0) & (ratio > 1 + high)) | ((advantages < 0) & (ratio < 1 - low))


def k3(log_ratio: Any) -> Any:
    """Estimate of KL(sampling || policy) from sampled tokens: ratio - 1 - log ratio, float32[s]."""
    return log_ratio.exp() - 1 - log_ratio


def top_k_kl(logits: Any, teacher: Teacher) -> Any:
    """KL(teacher || policy) over the teacher's most likely tokens and one bucket of all others.

    It is 0 only where both give each of these tokens, and so the others together, the same
    probability, and never more than the KL over the whole vocabulary, whose rest is not known.

    Args:
        logits: float32[m, vocabulary] of the policy at the m scored positions.
        teacher: of the same positions.

    Returns:
        float32[m].
    """
    device = logits.device
    counts = torch.from_numpy(teacher.counts).to(device)
    at = torch.repeat_interleave(torch.arange(len(counts), device=device), counts)
    ids = torch.from_numpy(teacher.token_ids).to(device)
    listed = torch.from_numpy(teacher.logprobs).to(device)
    total = logits.logsumexp(dim=-1)
    terms = listed.exp() * (listed - (logits[at, ids] - total[at]))
    divergence = torch.zeros_like(total).index_add(0, at, terms)
    mass = torch.zeros_like(total, dtype=torch.float64).index_add(0, at, listed.double().exp())
    rest = (1 - mass).float()
    # The bucket's term is 0 where rounding leaves the teacher no rest, or nothing is in it.
    some = (rest > 0) & (counts < logits.shape[-1])
    others = logits.masked_fill(_marked(logits, at, ids), -torch.inf)[some].logsumexp(dim=-1)
    of_rest = rest[some] * (rest[some].log() - (others - total[some]))
    return divergence.index_add(0, some.nonzero()[:, 0], of_rest)


def _marked(logits: Any, at: Any, ids: Any) -> Any:
    marked = torch.zeros_like(logits, dtype=torch.bool)
    marked[at, ids] = True
    return marked
