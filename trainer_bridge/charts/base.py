"""What charts must offer, and what the user says about them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from trainer_bridge.training import TrainingGroup


class ChartSettings(BaseModel):
    """What is shown in W&B, and where; the names are those of Atropos environments."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    use_wandb: bool = Field(default=False, description="Whether to log to W&B.")
    wandb_name: str | None = Field(
        default=None,
        description="Name of the run in W&B; that of the bridge's run when not set.",
        min_length=1,
        max_length=128,
    )
    project: str | None = Field(
        default=None, description="Project in W&B; W&B's own default when not set.", min_length=1
    )
    group: str | None = Field(
        default=None, description="Group of runs in W&B; none when not set.", min_length=1
    )
    mode: Literal["online", "offline"] = Field(
        default="online",
        description="offline writes files only, for `wandb sync`.",
    )
    dir: Path | None = Field(
        default=None,
        description="Folder that W&B makes its folder `wandb` in; the current one when not set.",
    )
    prefix: str | None = Field(
        default=None,
        description="Put before every name with an underscore, as Atropos does with the name that "
        "the trainer's server gave an environment; nothing when not set.",
        min_length=1,
    )
    num_rollouts_to_keep: int = Field(
        default=32, description="Most groups in a table of rollouts; the newest are kept.", ge=0
    )
    num_rollouts_per_group_for_logging: int = Field(
        default=1, description="Rollouts of a group in the table; -1 for all.", ge=-1
    )

    @property
    def rollouts_kept(self) -> int:
        """Most groups that are shown at once."""
        return self.num_rollouts_to_keep if self.use_wandb else 0


class Charts(Protocol):
    """A place for charts. No method blocks or raises for what the place does."""

    def log(self, values: Mapping[str, float], step: int | None) -> None:
        """Show values at a step of the trainer; None where it counts none."""

    def rollouts(self, groups: Sequence[TrainingGroup], step: int | None) -> None:
        """Show some rollouts of these groups, oldest first, as a table."""

    async def close(self) -> None:
        """Show what is still waiting, then let go; gives up after a while."""


class NoCharts:
    """Charts that nobody wants."""

    def log(self, values: Mapping[str, float], step: int | None) -> None:
        """Nothing."""

    def rollouts(self, groups: Sequence[TrainingGroup], step: int | None) -> None:
        """Nothing."""

    async def close(self) -> None:
        """Nothing."""
