"""How one attempt ended."""

from dataclasses import dataclass, field
from typing import Any

from episode_operator.api.decisions import RETRIED, Contract, Happening, decide
from episode_operator.api.reasons import NoVerdictReason, Verdict


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that gave no verdict."""

    reason: NoVerdictReason
    message: str

    @property
    def retryable(self) -> bool:
        """Whether a fresh pod may cure it."""
        return self.reason in RETRIED


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


def decided(
    happening: Happening,
    contract: Contract,
    message: str,
    *,
    reward: float | None = None,
    components: dict[str, float] | None = None,
) -> Scored | Failure:
    """The end that the decision table gives to what happened.

    `reward` is needed, and used, exactly where the table gives a verdict.
    """
    decision = decide(happening, contract)
    if decision.verdict is Verdict.NO_VERDICT:
        return Failure(NoVerdictReason(decision.reason), message)
    if reward is None:
        raise ValueError(f"{happening} is a verdict, and needs a reward")
    return Scored(decision.verdict, reward, decision.reason, message, components or {})


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an attempt: a score or a failure, and what was gathered on the way.

    `report` is opaque here: the controller puts the agent's report in and takes it out when the
    EpisodeResult is written. It is None when the attempt ended before the agent started.
    """

    end: Scored | Failure
    report: Any = None
