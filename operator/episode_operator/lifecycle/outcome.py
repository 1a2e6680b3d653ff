"""How one attempt ended."""

from dataclasses import dataclass, field
from typing import Any

from episode_operator.api.reasons import INFRASTRUCTURE, NoVerdictReason, Verdict


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that gave no verdict."""

    reason: NoVerdictReason
    message: str

    @property
    def retryable(self) -> bool:
        """Whether a fresh pod may cure it."""
        return self.reason in INFRASTRUCTURE


@dataclass(frozen=True, slots=True)
class Scored:
    """An attempt whose verifier produced a verdict.

    `reward` is finite; `components` are the contract's named parts of it.
    """

    verdict: Verdict
    reward: float
    reason: str
    message: str = ""
    components: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an attempt: a score or a failure, and what was gathered on the way.

    `report` is opaque here: the controller puts the agent's report in and takes it out when the
    EpisodeResult is written. It is None when the attempt ended before the agent started.
    """

    end: Scored | Failure
    report: Any = None
