"""What an Episode waits for before its agent can act."""

from enum import StrEnum

from episode_operator.api.episode import EpisodeStatus
from episode_operator.api.reasons import ConditionType, NoVerdictReason, Phase
from episode_operator.lifecycle.pods import PodView


class Cause(StrEnum):
    """Why an Episode does not run yet."""

    CREATION = "Creation"
    """Its pod is to be created."""
    QUOTA = "Quota"
    """The API server does not let its pod be created now."""
    RETRY = "Retry"
    """The pause before the next attempt."""
    NODE = "Node"
    """No node takes its pod yet."""
    START = "Start"
    """Its node pulls the images and starts the containers."""


def cause_of(status: EpisodeStatus, pod: PodView | None, now: float) -> Cause | None:
    """What an Episode waits for, None where it does not; `now` in seconds since the epoch."""
    if (status.phase or Phase.STARTING) is not Phase.STARTING:
        return None
    if pod is not None:
        unscheduled = pod.waiting.reason is NoVerdictReason.UNSCHEDULABLE and not pod.running
        return Cause.NODE if unscheduled else Cause.START
    if status.retry_time is not None and now < status.retry_time.timestamp():
        return Cause.RETRY
    reasons = (c.reason for c in status.conditions if c.type == ConditionType.SANDBOX_READY)
    return Cause.QUOTA if "PodForbidden" in reasons else Cause.CREATION
