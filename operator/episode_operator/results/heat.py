"""How strong the colour of a token is, wherever tokens are shown."""

from dataclasses import dataclass
from enum import StrEnum

from episode_operator.results.rollout import Token

LOGPROBS = (-0.1, -0.7, -2.3, -4.6)
"""Limits of the levels: probabilities of about 0.9, 0.5, 0.1 and 0.01."""
ADVANTAGES = (0.1, 0.5, 1.0, 2.0)
"""Limits of the levels of |teacher minus student|."""


class Scale(StrEnum):
    """What the colour tells of."""

    INSERTED = "inserted"
    UNSCORED = "unscored"
    LOGPROB = "logprob"
    GAIN = "gain"
    LOSS = "loss"


@dataclass(frozen=True, slots=True)
class Heat:
    """The colour of a token: level 0 is none, 4 the strongest."""

    scale: Scale
    level: int = 0


def heat(token: Token, *, taught: bool) -> Heat:
    """By its advantage where the Episode has a teacher, else by its logprob."""
    if not token.sampled or token.logprob is None:
        return Heat(Scale.INSERTED)
    if not taught:
        return Heat(Scale.LOGPROB, sum(token.logprob < limit for limit in LOGPROBS))
    if token.advantage is None:
        return Heat(Scale.UNSCORED)
    level = sum(abs(token.advantage) >= limit for limit in ADVANTAGES)
    return Heat(Scale.GAIN if token.advantage > 0 else Scale.LOSS, level)
