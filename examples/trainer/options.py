"""The command line."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.trainer.controls import CONTROLS

OPD_LOSSES = ("advantage", "topk-kl")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a run is told; lengths in tokens, batches in rows."""

    vllm: str
    model: Path
    output: Path
    pushed: Path
    pushed_on_server: str
    steps: int
    atropos: str = "http://localhost:8000"
    batch_size: int = 32
    max_token_length: int = 2048
    learning_rate: float = 2e-5
    warm_up_steps: int = 0
    epochs: int = 1
    micro_batch: int = 8
    clip_low: float = 0.2
    clip_high: float = 0.2
    reward_weight: float = 1.0
    opd_weight: float = 0.0
    opd_loss: str = "advantage"
    opd_clip: float = 5.0
    pass_score: float = 1.0
    ratio_tolerance: float = 1e-3
    threads: int | None = None
    seed: int = 0
    control: str | None = None


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Options of a command line, by default the program's.

    Raises:
        SystemExit: 2, with what is wrong on stderr.
    """
    given = vars(_parser().parse_args(arguments))
    given.setdefault("pushed_on_server", str(given["pushed"].absolute()))
    return Options(**given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.trainer",
        description="Train a model behind Atropos and push its weights into vLLM.",
        argument_default=argparse.SUPPRESS,
    )
    known = Options.__dataclass_fields__

    def add(name: str, kind: Callable[[str], Any], text: str, **more: Any) -> None:
        default = known[name.strip("-").replace("-", "_")].default
        told = "" if more.get("required") or default is None else f" ({default})"
        parser.add_argument(name, type=kind, help=text + told, **more)

    add("--vllm", str, "base URL of vLLM, in development mode", required=True)
    add("--model", Path, "folder of the first weights", required=True)
    add("--output", Path, "folder of checkpoints and steps.jsonl", required=True)
    add("--pushed", Path, "folder for the weights that vLLM loads", required=True)
    parser.add_argument("--pushed-on-server", help="the same folder as vLLM sees it (--pushed)")
    add("--steps", _positive, "steps of the whole run", required=True)
    add("--atropos", str, "base URL of Atropos")
    add("--batch-size", _positive, "rows of a step; a multiple of group_size")
    add("--max-token-length", _positive, "rows must be shorter")
    add("--learning-rate", float, "of AdamW")
    add("--warm-up-steps", int, "in which the learning rate rises")
    add("--epochs", _positive, "optimizer steps on each batch")
    add("--micro-batch", _positive, "rows computed at a time")
    add("--clip-low", float, "the ratio is cut below 1 - this")
    add("--clip-high", float, "the ratio is cut above 1 + this")
    add("--reward-weight", float, "of the advantage of a row in its group")
    add("--opd-weight", float, "of the teacher's loss")
    add("--opd-loss", str, "the teacher's loss", choices=OPD_LOSSES)
    add("--opd-clip", float, "bound of the teacher's advantage of a token")
    add("--pass-score", float, "rows of this score or more count as passed")
    add("--ratio-tolerance", float, "most |log ratio| before an update for ratio_ok")
    add("--threads", _positive, "of torch")
    add("--seed", int, "of the control")
    add("--control", str, "a deliberate fault", choices=tuple(CONTROLS))
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number
