"""Names of what belongs to a run; fixed by run, group, member and try, so that nothing is doubled.

A creation that is repeated after a crash meets the object of the first one.
"""

import hashlib
from dataclasses import dataclass

from episode_operator.api.labels import RUN

_HASH_LENGTH = 10


@dataclass(frozen=True, slots=True)
class GroupName:
    """A group of Episodes of one task."""

    name: str

    @classmethod
    def training(cls, run: str, index: int) -> "GroupName":
        """A training group, by its index in the run."""
        return cls(f"{run}-{index:06d}")

    @classmethod
    def evaluation(cls, run: str, label: str, task: str, sample: int) -> "GroupName":
        """One try of a task in an evaluation."""
        digest = hashlib.sha256(task.encode()).hexdigest()[:_HASH_LENGTH]
        return cls(f"{run}-eval-{label}-{digest}-{sample}")

    def __str__(self) -> str:
        return self.name

    def episode(self, member: int, tries: int) -> str:
        """Name of the Episode of a member; `tries` were made before it."""
        again = f"-r{tries}" if tries else ""
        return f"{self}-m{member}{again}"


def labels(run: str) -> dict[str, str]:
    """Labels by which everything of a run is found."""
    return {RUN: run}


def state_name(run: str) -> str:
    """Name of the run's ConfigMap and of its Lease."""
    return f"trainer-bridge-{run}"
