"""How a turn is sampled, and what of it the server must be told."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from episode_operator.model.errors import RawLogprobs


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """Sampling parameters, with vLLM's meaning; 0 turns top_k, min_p and top_logprobs off.

    `seed` makes an episode repeatable; every turn, and every part of a turn that was interrupted,
    gets another one derived from it. (vLLM's CPU build dies of a seed with temperature > 0 when the
    prompt is long enough to be chunked: set none there.)
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_tokens: int = 2048
    seed: int | None = None
    top_logprobs: int = 0

    @property
    def changes_distribution(self) -> bool:
        """Whether the policy samples from another distribution than the model's own.

        Greedy decoding does not count: its one outcome has no distribution.
        """
        if self.temperature == 0.0:
            return False
        return self.temperature != 1.0 or self.top_p != 1.0 or self.top_k > 0 or self.min_p > 0.0

    def params(self, *, max_tokens: int, turn: int, part: int) -> dict[str, Any]:
        """`sampling_params` of one request; `part` counts the continuations of a turn."""
        params: dict[str, Any] = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "min_p": self.min_p,
            "max_tokens": max_tokens,
            "logprobs": self.top_logprobs,
        }
        if self.seed is not None:
            params["seed"] = derived_seed(self.seed, turn, part)
        return params


def derived_seed(seed: int, turn: int, part: int) -> int:
    """A seed in [0, 2**31) for part `part` of turn `turn`."""
    digest = blake2b(f"{seed} {turn} {part}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1


def require_usable_logprobs(config: SamplingConfig, *, mode: str) -> None:
    """Raise RawLogprobs when recorded logprobs would not be those of the sampling distribution.

    `mode` is "processed" or "raw" (Capabilities.logprobs_mode). With raw values importance ratios
    are wrong as soon as the sampling parameters change the distribution.
    """
    if mode != "processed" and config.changes_distribution:
        raise RawLogprobs(
            "the server reports raw logprobs, which are not those of the distribution sampled from "
            f"(temperature {config.temperature}, topP {config.top_p}, topK {config.top_k}, minP "
            f"{config.min_p}); start vLLM with --logprobs-mode processed_logprobs, or set "
            "temperature and topP to 1 and topK and minP to 0"
        )
