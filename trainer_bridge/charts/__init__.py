"""Charts of a run, for people: values over the trainer's steps, and tables of rollouts."""

from trainer_bridge.charts.base import Charts, ChartSettings, NoCharts
from trainer_bridge.charts.wandb_charts import WandbCharts, WandbMissingError, open_charts

__all__ = ["ChartSettings", "Charts", "NoCharts", "WandbCharts", "WandbMissingError", "open_charts"]
