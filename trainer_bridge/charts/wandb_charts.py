"""Charts in W&B. Its calls block, and may fail: none of them is made on the event loop."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trainer_bridge.charts import rollout_table
from trainer_bridge.charts.base import Charts, ChartSettings, NoCharts
from trainer_bridge.charts.worker import Worker
from trainer_bridge.training import TrainingGroup

if TYPE_CHECKING:
    import wandb

STEP: Final = "trainer_step"
"""The axis of the charts. W&B drops values of a step before its own; a trainer may go back."""

_MOST_WAITING = 100
_CLOSE_SECONDS = 60.0
_FINISH_SECONDS = 30.0


class WandbMissingError(Exception):
    """The package wandb is not installed."""


def open_charts(settings: ChartSettings, *, run: str, uid: str) -> Charts:
    """The charts that the settings ask for; `run` and `uid` as of WandbCharts.

    Raises:
        WandbMissingError: they ask for W&B, and it is not installed.
    """
    return WandbCharts(settings, run=run, uid=uid) if settings.use_wandb else NoCharts()


def run_id(run: str, uid: str) -> str:
    """Id of the run in W&B, the same whenever a bridge of this run starts again."""
    return hashlib.sha256(f"{run}/{uid}".encode()).hexdigest()[:16]


class WandbCharts:
    """Charts in one run of W&B, which goes on where the bridge is started again.

    What W&B cannot take is logged and counted in `trainer_bridge_chart_errors_total`.
    """

    def __init__(self, settings: ChartSettings, *, run: str, uid: str) -> None:
        """Return at once; W&B is asked for the run when there is something to show.

        Args:
            settings: where to show what.
            run: name of the bridge's run.
            uid: what tells this run from others of its name; the same after a restart.

        Raises:
            WandbMissingError: W&B is not installed.
        """
        try:
            import wandb  # noqa: PLC0415
        except ImportError as error:
            raise WandbMissingError(
                "charts in W&B need the package wandb: pip install '.[bridge]' in the repository, "
                "or set use_wandb to false"
            ) from error
        self._wandb = wandb
        self._settings = settings
        self._name = settings.wandb_name or run
        self._id = run_id(run, uid)
        self._run: wandb.Run | None = None
        self._stepped = False
        self._worker = Worker("wandb", most_waiting=_MOST_WAITING)

    def log(self, values: Mapping[str, float], step: int | None) -> None:
        """Show values at a step of the trainer; None where it counts none."""
        if values:
            self._worker.submit(partial(self._log, dict(values), step))

    def rollouts(self, groups: Sequence[TrainingGroup], step: int | None) -> None:
        """Show some rollouts of these groups, oldest first, as the table train/rollouts."""
        self._worker.submit(partial(self._log_table, tuple(groups), step))

    async def close(self) -> None:
        """Show what is still waiting, and end the run in W&B; gives up after a minute."""
        await self._worker.close(self._finish, within=_CLOSE_SECONDS)

    def _log_table(self, groups: Sequence[TrainingGroup], step: int | None) -> None:
        if rows := rollout_table.rows(groups, self._settings):
            table = self._wandb.Table(columns=list(rollout_table.COLUMNS))
            for row in rows:
                table.add_data(*row)
            self._log({"train/rollouts": table}, step)

    def _log(self, values: Mapping[str, Any], step: int | None) -> None:
        run = self._connected()
        prefix = f"{self._settings.prefix}_" if self._settings.prefix else ""
        shown = {f"{prefix}{name}": value for name, value in values.items()}
        if step is not None:
            if not self._stepped:
                run.define_metric(STEP)
                run.define_metric("*", step_metric=STEP)
                self._stepped = True
            shown[STEP] = step
        run.log(shown)

    def _connected(self) -> "wandb.Run":
        if self._run is None:
            self._run = self._wandb.init(
                id=self._id,
                name=self._name,
                project=self._settings.project,
                group=self._settings.group,
                dir=self._settings.dir,
                resume="allow",
                settings=self._wandb.Settings(
                    mode=self._settings.mode,
                    console="off",  # the bridge's log is for its own readers
                    silent=True,
                    finish_timeout=_FINISH_SECONDS,
                    x_disable_stats=True,  # the load of the bridge says nothing about the training
                    disable_git=True,
                    disable_code=True,
                ),
            )
        return self._run

    def _finish(self) -> None:
        if self._run is not None:
            self._run.finish()
            self._wandb.teardown()  # finish alone returns before the last values are on disk
