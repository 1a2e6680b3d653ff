"""The batch that is being trained on, on disk until its step is done.

Atropos forgets a batch as it hands it out. A trainer that is killed finds it here and trains on it,
once.
"""

from collections.abc import Callable
from pathlib import Path


class Batches:
    """Of one output folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, step: int, fetch: Callable[[], bytes | None]) -> bytes | None:
        """The batch of a step: the one that was fetched for it before, else a new one.

        Args:
            step: from 0.
            fetch: gives what `/batch` answered, or None.
        """
        path = self._path(step)
        if not path.exists():
            answer = fetch()
            if answer is None:
                return None
            part = path.with_suffix(".part")
            part.write_bytes(answer)
            part.rename(path)
        return path.read_bytes()

    def put_aside(self, step: int) -> Path:
        """Keep the batch of a step out of the way, so that another one is fetched; where it is."""
        return self._path(step).rename(self._folder / f"refused-{step}.json")

    def done(self, steps: int) -> None:
        """So many steps are in a checkpoint: their batches are not wanted any more."""
        for path in self._folder.glob("batch-*.json"):
            if int(path.stem.removeprefix("batch-")) < steps:
                path.unlink()

    def _path(self, step: int) -> Path:
        return self._folder / f"batch-{step}.json"
