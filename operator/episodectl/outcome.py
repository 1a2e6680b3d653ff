"""What a golden scan says about one task."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from episode_operator.api.episode import Episode
from episode_operator.api.reasons import Verdict
from trainer_bridge.harness import HarnessError, checked


class Mark(StrEnum):
    """The word for it. ERR is no verdict, and never comes with a number."""

    PASS = "pass"
    FAIL = "fail"
    ERR = "ERR"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One task's line.

    Attributes:
        reason: CamelCase, as in the Episode's status; one of this scan's own where there was none.
        reward: of a pass or a fail, None for ERR.
        seconds: from the Episode's creation to its end, None where there was no Episode.
        notes: what the task says that has no effect.
    """

    task: str
    mark: Mark
    reason: str
    message: str = ""
    reward: float | None = None
    seconds: float | None = None
    episode: str | None = None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return {
            "task": self.task,
            "result": self.mark,
            "reason": self.reason,
            "message": self.message,
            "reward": self.reward,
            "seconds": self.seconds,
            "episode": self.episode,
            "notes": list(self.notes),
        }


def judge(task: str, episode: Episode, result: Mapping[str, Any] | None) -> Outcome:
    """The outcome of a finished Episode, with its EpisodeResult as the API server gave it."""
    status = episode.status
    seconds = None
    if status.completion_time is not None:
        seconds = round((status.completion_time - episode.created).total_seconds(), 1)

    def outcome(mark: Mark, reason: str, message: str, reward: float | None = None) -> Outcome:
        return Outcome(task, mark, reason, message, reward, seconds, episode.name)

    if status.verdict not in (Verdict.PASSED, Verdict.FAILED):
        return outcome(Mark.ERR, status.reason or "NoVerdict", status.message or "")
    if result is None:
        return outcome(Mark.ERR, "ResultMissing", "the Episode has no EpisodeResult")
    try:
        spec = checked(result, episode.spec).spec
    except HarnessError as error:
        return outcome(Mark.ERR, "HarnessUnknown", str(error))
    mark = Mark.PASS if spec.verdict is Verdict.PASSED else Mark.FAIL
    return outcome(mark, spec.reason, spec.message, spec.reward)
