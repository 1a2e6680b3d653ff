"""Checkpoints: model, optimizer, and how far the run is; whole or not there at all.

Nothing else has to be kept: all chance is drawn from the seed and the number of the step.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch  # type: ignore[import-not-found]

_KEPT: Final = 2


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One in a folder, which is also a Hugging Face folder of the model.

    Attributes:
        steps: how many the run has taken.
        record: the line of the last of them, except for the push of its weights.
    """

    folder: Path
    steps: int
    record: dict[str, Any] | None


class Checkpoints:
    """Of one output folder."""

    def __init__(self, output: Path) -> None:
        self._folder = output / "checkpoints"

    def latest(self) -> Checkpoint | None:
        """The last one that is whole."""
        found = sorted(self._folder.glob("step-*"), key=_steps)
        if not found:
            return None
        record = json.loads((found[-1] / "record.json").read_text())
        return Checkpoint(folder=found[-1], steps=_steps(found[-1]), record=record)

    def save(
        self, model: Any, optimizer: Any, *, steps: int, record: dict[str, Any] | None
    ) -> Checkpoint:
        """Write one; the one before is kept, older ones are removed."""
        part = self._folder / "part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        model.save_pretrained(part)
        torch.save(optimizer.state_dict(), part / "optimizer.pt")
        (part / "record.json").write_text(json.dumps(record))
        folder = part.rename(self._folder / f"step-{steps}")
        for older in sorted(self._folder.glob("step-*"), key=_steps)[:-_KEPT]:
            shutil.rmtree(older)
        return Checkpoint(folder=folder, steps=steps, record=record)


def load_optimizer(checkpoint: Checkpoint, optimizer: Any) -> None:
    """Give an optimizer of the checkpoint's model its state."""
    state = torch.load(checkpoint.folder / "optimizer.pt", map_location="cpu", weights_only=True)
    optimizer.load_state_dict(state)


def _steps(folder: Path) -> int:
    return int(folder.name.removeprefix("step-"))
