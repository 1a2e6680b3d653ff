"""What to do about a group, from how its members ended. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from episode_operator.api.reasons import NoVerdictReason, Verdict
from trainer_bridge.training import TrainingGroup

HOPELESS = frozenset(
    {
        NoVerdictReason.MODEL_BAD_REQUEST,
        NoVerdictReason.MODEL_UNAUTHORIZED,
        NoVerdictReason.MODEL_NOT_FOUND,
        NoVerdictReason.SCALE_OUT_DISABLED,
        NoVerdictReason.RAW_LOGPROBS,
        NoVerdictReason.WEIGHTS_UNLABELED,
        NoVerdictReason.RENDER_MISMATCH,
        NoVerdictReason.TEACHER_MISMATCH,
        NoVerdictReason.CONTEXT_LENGTH_EXCEEDED,
        NoVerdictReason.INVALID_TASK,
    }
)
"""Reasons that name the input or the configuration: another Episode would end alike."""

DELETED = "Deleted"
INCOMPLETE = "Incomplete"
EQUAL_SCORES = "EqualScores"
STALE = "Stale"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a member's Episode ended; `verdict` NoVerdict also stands for one that left no result."""

    verdict: Verdict
    reason: str
    message: str = ""

    @classmethod
    def deleted(cls, message: str) -> "Ended":
        """Somebody deleted the Episode, and it left no result."""
        return cls(Verdict.NO_VERDICT, DELETED, message)


@dataclass(frozen=True, slots=True)
class Wait:
    """Members are still at work."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """Run a member again."""

    member: int
    reason: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Drop the group; the reason is one CamelCase word.

    `no_verdict` is why the member that it is dropped for has none.
    """

    reason: str
    message: str
    no_verdict: str | None = None


@dataclass(frozen=True, slots=True)
class Complete:
    """Each member has a verdict."""


Decision = Wait | Rerun | Drop | Complete


def decide(members: Sequence[Ended | None], *, reruns_left: int) -> Decision:
    """The next thing to do; None is a member at work.

    A group is dropped as soon as it cannot complete, whatever its other members are about.
    """
    for index, member in enumerate(members):
        if member is None or member.verdict is not Verdict.NO_VERDICT:
            continue
        if member.reason in HOPELESS:
            told = f"member {index}: {member.reason}: {member.message}"
            return Drop(INCOMPLETE, told, member.reason)
        if reruns_left < 1:
            told = f"member {index}: {member.reason}, and no rerun is left: {member.message}"
            return Drop(INCOMPLETE, told, member.reason)
        return Rerun(index, member.reason)
    return Wait() if any(member is None for member in members) else Complete()


def refusal(
    group: TrainingGroup, *, different_scores: bool, step: int | None, max_steps: int | None
) -> Drop | None:
    """Why a complete group is of no use to a trainer at that step, or None.

    Equal scores have no advantage over each other to learn from, but a teacher's values have; a
    group of one has no other.
    """
    if max_steps is not None and step is not None and group.step is not None:
        age = step - group.step
        if age > max_steps:
            return Drop(STALE, f"started {age} steps ago, at most {max_steps} are allowed")
    scores = group.scores
    if different_scores and len(scores) > 1 and len(set(scores)) == 1 and not group.distilled:
        return Drop(EQUAL_SCORES, f"all {len(scores)} scores are {scores[0]:g}")
    return None
