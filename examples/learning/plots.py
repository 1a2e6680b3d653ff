"""Draws records of runs: pass rate, reward, turns, KL, ratio, staleness, seconds by part."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

Record = Mapping[str, Any]


def draw(records: Mapping[str, Record], file: Path) -> None:
    """One picture of one or several runs, by their names."""
    panels: Sequence[tuple[str, Callable[[Axes, str, Record], None]]] = (
        ("held-out pass rate", _pass_rate),
        ("reward of the batch", _values("reward_mean")),
        ("tokens sampled for a row", _row_length),
        ("KL(sampling || policy) before the update", _values("kl")),
        ("largest |log ratio| before the update", _values("ratio_log_max", log=True)),
        ("seconds of a step", _step_seconds),
    )
    figure, axes = plt.subplots(2, 3, figsize=(15, 8), layout="constrained")
    for axis, (title, panel) in zip(axes.flat, panels, strict=True):
        for name, record in records.items():
            panel(axis, name, record)
        axis.set_title(title)
        axis.set_xlabel("step of the trainer")
        axis.grid(alpha=0.3)
    axes.flat[0].set_ylim(0, 1)
    axes.flat[0].legend()
    figure.savefig(file, dpi=90)
    plt.close(figure)


def _pass_rate(axis: Axes, name: str, record: Record) -> None:
    points = sorted((int(step), one["pass_rate"]) for step, one in record["evaluations"].items())
    axis.plot(*zip(*points, strict=True), marker="o", label=name)


def _values(field: str, *, log: bool = False) -> Callable[[Axes, str, Record], None]:
    def panel(axis: Axes, name: str, record: Record) -> None:
        axis.plot([step[field] for step in record["steps"]], label=name)
        if log:
            axis.set_yscale("log")

    return panel


def _row_length(axis: Axes, name: str, record: Record) -> None:
    axis.plot([step["sampled_tokens"] / step["rows"] for step in record["steps"]], label=name)


def _step_seconds(axis: Axes, name: str, record: Record) -> None:
    axis.plot([_sum(step["seconds"]) for step in record["steps"]], label=name)


def _sum(seconds: Mapping[str, float]) -> float:
    """Seconds of a step; the pause is a part of the push."""
    return sum(value for part, value in seconds.items() if part != "pause")
