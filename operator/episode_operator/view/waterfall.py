"""Where an Episode's time went, as bars one after the other."""

from dataclasses import dataclass
from datetime import datetime

from episode_operator.api.episode import Episode
from episode_operator.api.reasons import ConditionType
from episode_operator.api.result import EpisodeResult


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of the time; seconds, from the Episode's start.

    Attributes:
        part: whether it is a part of the bar above it.
    """

    name: str
    start: float
    seconds: float
    part: bool = False

    @property
    def end(self) -> float:
        """When it ended."""
        return self.start + self.seconds


def of_result(result: EpisodeResult) -> list[Bar]:
    """The parts as they were measured.

    What no part measured, earlier attempts and waiting for a pod, is the first bar. Of the agent's
    parts only the lengths are known: they are shown one after the other.
    """
    spec, timings = result.spec, result.spec.timings
    total = (spec.finished_at - spec.started_at).total_seconds()
    measured = {
        "sandbox start": timings.sandbox_start_seconds,
        "setup": timings.setup_seconds,
        "agent": timings.agent_seconds,
        "verifier": timings.verifier_seconds,
    }
    bars = [Bar("waiting, earlier attempts", 0.0, max(0.0, total - sum(measured.values())))]
    for name, seconds in measured.items():
        bars.append(Bar(name, bars[-1].end, seconds))
    agent = next(at for at, bar in enumerate(bars) if bar.name == "agent")
    start = bars[agent].start
    model = Bar("model", start, timings.model_seconds, part=True)
    tools = Bar("tools", model.end, timings.tool_seconds, part=True)
    bars[agent + 1 : agent + 1] = [model, tools]
    told = result.status.distillation
    if told is not None:
        began = (told.completed_at - spec.started_at).total_seconds() - told.seconds
        bars.append(Bar("distillation", max(began, 0.0), told.seconds))
    return bars


def of_status(episode: Episode, now: datetime) -> list[Bar]:
    """What the conditions of an Episode at work tell."""
    begin = episode.created
    times = {
        condition.type: condition.last_transition_time
        for condition in episode.status.conditions
        if condition.status == "True"
    }
    ready = times.get(ConditionType.SANDBOX_READY)
    acted = times.get(ConditionType.AGENT_COMPLETED)
    steps = (("starting", begin, ready), ("agent", ready, acted), ("verifier", acted, None))
    return [
        Bar(name, (start - begin).total_seconds(), ((end or now) - start).total_seconds())
        for name, start, end in steps
        if start is not None
    ]
