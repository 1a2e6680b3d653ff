"""The loop: a batch from Atropos, an update, a checkpoint, new weights for vLLM, a line."""

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import torch  # type: ignore[import-not-found]

from examples.trainer import losses, policy, record
from examples.trainer.atropos import Atropos
from examples.trainer.batches import Batches
from examples.trainer.checkpoints import Checkpoint, Checkpoints, load_optimizer
from examples.trainer.controls import controlled
from examples.trainer.errors import TrainerError
from examples.trainer.options import Options
from examples.trainer.rows import BatchError, Row, read
from examples.trainer.stopping import Stopping
from examples.trainer.update import Pass, update
from examples.trainer.weights import Weights


def train(options: Options) -> None:
    """Take all steps that the run has left. SIGTERM and SIGINT end it after the step under way.

    Raises:
        TrainerError: it cannot go on; started again it does so from the last checkpoint.
    """
    stopping = Stopping()
    stopping.on_signals()
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    options.output.mkdir(parents=True, exist_ok=True)
    weights = Weights(
        options.vllm,
        folder=options.pushed,
        on_server=options.pushed_on_server,
        stopping=stopping,
    )
    atropos = Atropos(
        options.atropos,
        batch_size=options.batch_size,
        max_token_length=options.max_token_length,
        num_steps=options.steps,
        checkpoint_dir=str(options.output),
        stopping=stopping,
    )
    with closing(weights), closing(atropos):
        run = Run(options, weights, atropos)
        run.begin()
        while run.steps < options.steps and not stopping.requested and run.step():
            pass


class Run:
    """A run from where it stands to its end.

    Attributes:
        steps: how many have been taken.
    """

    def __init__(self, options: Options, weights: Weights, atropos: Atropos) -> None:
        self._options = options
        self._weights = weights
        self._atropos = atropos
        self._batches = Batches(options.output)
        self._record = record.Record(options.output)
        self._checkpoints = Checkpoints(options.output)
        found = self._checkpoints.latest()
        self._model = policy.load(found.folder if found else options.model)
        self._optimizer = torch.optim.AdamW(
            self._model.parameters(), lr=options.learning_rate, weight_decay=0.0
        )
        if found:
            load_optimizer(found, self._optimizer)
        self._last = found or self._save(0, None)

    @property
    def steps(self) -> int:
        return self._last.steps

    def begin(self) -> None:
        """Give vLLM the weights that the run stands at, and register."""
        self._batches.done(self.steps)
        has_line = self._record.go_on_after(self.steps)
        self._push(has_line=has_line)
        print(f"{self.steps} of {self._options.steps} steps are done", flush=True)
        self._atropos.register(self.steps)

    def step(self) -> bool:
        """Take one; False if there was no batch before the run was stopped."""
        options, step = self._options, self.steps
        began, began_cpu = time.monotonic(), time.process_time()
        batch = self._batches.take(step, lambda: self._atropos.batch(step))
        if batch is None:
            return False
        rows = self._rows(batch)
        waited = time.monotonic() - began
        learning_rate = options.learning_rate * min(1, (step + 1) / max(options.warm_up_steps, 1))
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        trained = controlled(rows, options.control, seed=options.seed, step=step)
        passes = update(self._model, self._optimizer, trained, options)
        line = {
            "step": step,
            "weight_version": _version(step + 1),
            "control": options.control,
            **record.of_rows(rows, pass_score=options.pass_score),
            **_of_passes(passes, options),
            "learning_rate": learning_rate,
            "seconds": {
                "wait": waited,
                "compute": sum(one.compute_seconds for one in passes),
                "optimizer": sum(one.optimizer_seconds for one in passes),
                "save": None,
                "pause": None,
                "push": None,
            },
            "cpu_seconds": time.process_time() - began_cpu,
        }
        self._last = self._save(step + 1, line)
        self._batches.done(step + 1)
        self._push(has_line=False)
        return True

    def _rows(self, batch: bytes) -> list[Row]:
        try:
            return read(
                batch,
                size=self._options.batch_size,
                max_token_length=self._options.max_token_length,
                vocabulary=self._model.config.vocab_size,
            )
        except BatchError as error:
            aside = self._batches.put_aside(self.steps)
            raise TrainerError(f"{error}; it is in {aside}, start again for the next") from error

    def _save(self, steps: int, line: dict[str, Any] | None) -> Checkpoint:
        began = time.monotonic()
        saved = self._checkpoints.save(self._model, self._optimizer, steps=steps, record=line)
        if line is not None:
            line["seconds"]["save"] = time.monotonic() - began
        return saved

    def _push(self, *, has_line: bool) -> None:
        """Push the weights of the last checkpoint; write the line of its step if there is none."""
        began = time.monotonic()
        pause = self._weights.push(self._last.folder, _version(self.steps))
        line = self._last.record
        if line is None or has_line:
            return
        line["seconds"].update(pause=pause, push=time.monotonic() - began)
        line["time"] = time.time()
        self._record.append(line)
        print(record.shown(line, self._options.steps), flush=True)


def _version(steps: int) -> str:
    """The label of the weights after so many steps."""
    return f"step-{steps}"


def _of_passes(passes: Sequence[Pass], options: Options) -> dict[str, Any]:
    """The ratio before any update; all else of the last pass."""
    first, last = passes[0].log_ratio, passes[-1]
    most = float(first.abs().max())
    return {
        "loss": last.surrogate + options.opd_weight * (last.distillation or 0.0),
        "loss_surrogate": last.surrogate,
        "loss_distillation": last.distillation,
        "kl": float(losses.k3(last.log_ratio).mean()),
        "clip_share": last.clipped / last.log_ratio.numel(),
        "gradient_norm": last.gradient_norm,
        "ratio_log_max": most,
        "ratio_mean": float(first.exp().mean()),
        "ratio_beyond_share": float((first.abs() > options.ratio_tolerance).float().mean()),
        "ratio_ok": most <= options.ratio_tolerance,
    }
