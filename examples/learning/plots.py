"""Draws records of runs: pass rate, reward, turns, KL, ratio, staleness, seconds by part.

python -m examples.learning.plots PICTURE.png reports/learning/*/record.json
"""

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

Record = Mapping[str, Any]

_STEP_PARTS = ("wait", "compute", "optimizer", "save", "push")
"""Of a step of the trainer; its pause is a part of the push."""


def draw(records: Mapping[str, Record], file: Path) -> None:
    """One picture of one or several runs, by their names."""
    by_step: Sequence[tuple[str, Callable[[Record], Iterable[float]]]] = (
        ("reward of the batch", _of_steps("reward_mean")),
        ("turns of an Episode", lambda record: _batches(record, "turns")),
        ("KL(sampling || policy) before the update", _of_steps("kl")),
        ("largest |log ratio| before the update", _of_steps("ratio_log_max")),
        ("steps that sampled tokens are behind", _staleness),
    )
    figure, axes = plt.subplots(2, 4, figsize=(20, 8), layout="constrained")
    rate, *lines, step_parts, loop_parts = axes.flat
    for name, record in records.items():
        points = sorted(
            (int(step), one["pass_rate"]) for step, one in record["evaluations"].items()
        )
        rate.plot(*zip(*points, strict=True), marker="o", label=name)
        for axis, (_, values) in zip(lines, by_step, strict=True):
            axis.plot(list(values(record)), label=name)
    rate.set_title("held-out pass rate")
    rate.set_ylim(0, 1)
    rate.legend()
    for axis, (title, _) in zip(lines, by_step, strict=True):
        axis.set_title(title)
    for axis in (rate, *lines):
        axis.set_xlabel("step of the trainer")
        axis.grid(alpha=0.3)
    lines[3].set_yscale("log")
    _bars(step_parts, {name: _step_seconds(record) for name, record in records.items()})
    step_parts.set_title("seconds of a step, mean")
    _bars(loop_parts, {name: record["cpu_shares"] for name, record in records.items()})
    loop_parts.set_title("share of CPU seconds by part")
    figure.savefig(file, dpi=90)
    plt.close(figure)


def _of_steps(field: str) -> Callable[[Record], Iterable[float]]:
    return lambda record: [step[field] for step in record["steps"]]


def _batches(record: Record, field: str) -> list[Any]:
    return [batch[field] for batch in record["episodes"]["batches"]]


def _staleness(record: Record) -> Iterable[float]:
    told = _batches(record, "staleness")
    return [math.nan if one is None else one["mean"] for one in told]


def _step_seconds(record: Record) -> dict[str, float]:
    steps = record["steps"]
    return {part: sum(step["seconds"][part] for step in steps) / len(steps) for part in _STEP_PARTS}


def _bars(axis: Axes, values: Mapping[str, Mapping[str, float]]) -> None:
    """A bar for each run, made of its parts."""
    parts = list(dict.fromkeys(part for one in values.values() for part in one))
    done = dict.fromkeys(values, 0.0)
    for part in parts:
        heights = [values[name].get(part, 0.0) for name in values]
        axis.bar(list(values), heights, bottom=list(done.values()), label=part)
        done = {name: done[name] + height for name, height in zip(values, heights, strict=True)}
    axis.tick_params(axis="x", rotation=30)
    axis.legend()


def main(picture: str, *records: str) -> None:
    """Draw the records of these files, each named by its folder."""
    draw(
        {Path(one).parent.name: json.loads(Path(one).read_text()) for one in records},
        Path(picture),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
