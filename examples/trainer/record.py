"""`steps.jsonl`: a line for each step, once, whatever the trainer goes through."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from examples.trainer.advantages import teacher_advantages
from examples.trainer.rows import Row, scored_positions


class Record:
    """The file of one output folder."""

    def __init__(self, output: Path) -> None:
        self._path = output / "steps.jsonl"

    def go_on_after(self, steps: int) -> bool:
        """Drop lines of later steps, or cut off by a kill; whether the last step has its line."""
        lines = self._path.read_text().splitlines(keepends=True) if self._path.exists() else []
        kept = [one for one in lines if one.endswith("\n") and json.loads(one)["step"] < steps]
        part = self._path.with_suffix(".part")
        part.write_text("".join(kept))
        part.rename(self._path)
        return steps == 0 or (bool(kept) and json.loads(kept[-1])["step"] == steps - 1)

    def append(self, line: dict[str, Any]) -> None:
        """Write a line."""
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def of_rows(rows: Sequence[Row], *, pass_score: float) -> dict[str, Any]:
    """What there is to tell of a batch before anything is computed."""
    scores = np.array([row.score for row in rows])
    advantages = np.concatenate([teacher_advantages(row) for row in rows])
    known = advantages[~np.isnan(advantages)]
    scored = scored_positions(rows)
    return {
        "rows": len(rows),
        "groups": len({row.group for row in rows}),
        "sampled_tokens": int(sum(row.sampled.sum() for row in rows)),
        "reward_mean": float(scores.mean()),
        "pass_share": float((scores >= pass_score).mean()),
        "distilled_positions": scored,
        "unlisted_positions": scored - known.size,
        "distillation_advantage": float(known.mean()) if known.size else None,
    }


def shown(line: dict[str, Any], steps: int) -> str:
    """The line of a step for people."""
    seconds = line["seconds"]
    return (
        f"step {line['step'] + 1}/{steps}  reward {line['reward_mean']:.3f}  "
        f"passed {line['pass_share']:.2f}  tokens {line['sampled_tokens']}  "
        f"kl {line['kl']:.1e}  ratio {line['ratio_log_max']:.1e}  "
        f"wait {seconds['wait']:.1f} s  compute {seconds['compute']:.1f} s  "
        f"push {seconds['push']:.1f} s"
    )
