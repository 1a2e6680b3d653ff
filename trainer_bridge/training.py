"""What a trainer gets: groups of finished Episodes of one task."""

from dataclasses import dataclass

from episode_operator.results.record import EpisodeRecord


@dataclass(frozen=True, slots=True, eq=False)
class TrainingGroup:
    """All members of a group, each with a verdict.

    Attributes:
        name: name of the group, `<run>-<index>`; the same in every EpisodeResult of it.
        task: name of the task that its members worked on.
        family: family of the task, for statistics; the task's source says what that is.
        step: the trainer's step when the group was started; None without a trainer.
        members: the records, in the order of their index in the group; `reward` is set in each.
    """

    name: str
    task: str
    family: str
    step: int | None
    members: tuple[EpisodeRecord, ...]

    @property
    def scores(self) -> tuple[float, ...]:
        """The rewards, in the order of the members."""
        rewards = [record.reward for record in self.members]
        return tuple(reward for reward in rewards if reward is not None)

    @property
    def distilled(self) -> bool:
        """Whether a teacher scored at least one position of a member."""
        return any(
            record.distillation is not None and record.distillation.positions.size > 0
            for record in self.members
        )
