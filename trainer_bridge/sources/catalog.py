"""The tasks of a run: those to train on in an endless order, and those held out for evaluation.

Where a task belongs and when its turn is are decided by hashes of the seed and the task's name, by
nothing else. So both are the same after a restart and on every machine, and a task that is added
later moves no other one from one side to the other.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from trainer_bridge.sources import builtin, hub
from trainer_bridge.sources.errors import NoTasksError, Unreadable
from trainer_bridge.sources.load import load
from trainer_bridge.sources.settings import TaskSettings
from trainer_bridge.sources.task import Options, Task

_EPOCHS_KEPT = 2
"""Groups of the epoch before may still be asked for."""
_RANK_BITS = 64


class Catalog:
    """Readable tasks, each in exactly one of `train` and `evaluation`.

    A task is held out if its hash, as a number from 0 to 1, is below the ratio. So the share of
    those held out is only about the ratio. If a ratio above 0 leaves one side without tasks, the
    task nearest to the border changes sides; a single task is for training.

    Attributes:
        train: by name; never empty.
        evaluation: in a seeded order, so that the first few are a random sample.
        unreadable: the tasks that cannot be read, with the reasons.
    """

    def __init__(
        self, found: Sequence[Task | Unreadable], *, source: str, ratio: float, seed: int
    ) -> None:
        """Divide what was found; the names of the tasks must differ.

        Raises:
            NoTasksError: none of it can be read.
        """
        self.unreadable = tuple(one for one in found if isinstance(one, Unreadable))
        tasks = {one.name: one for one in found if not isinstance(one, Unreadable)}
        if not tasks:
            raise NoTasksError(source, self.unreadable)
        ranked = sorted(tasks, key=lambda name: _rank(seed, "split", name))
        border = ratio * 2**_RANK_BITS
        count = sum(_rank(seed, "split", name) < border for name in ranked)
        if ratio > 0:
            count = min(max(count, 1), len(ranked) - 1)
        self.evaluation = tuple(tasks[name] for name in ranked[:count])
        self.train = tuple(tasks[name] for name in sorted(ranked[count:]))
        self._seed = seed
        self._tasks = tasks
        self._epoch = lru_cache(_EPOCHS_KEPT)(self._order)

    def task(self, index: int) -> Task:
        """The task to train on whose turn is at `index`, from 0 on without an end.

        Each epoch, that is as many turns as there are tasks, has every task once, in an order of
        its own.
        """
        epoch, turn = divmod(index, len(self.train))
        return self._epoch(epoch)[turn]

    def named(self, name: str) -> Task | None:
        """The task of this name, of either side; None if there is none."""
        return self._tasks.get(name)

    def _order(self, epoch: int) -> list[Task]:
        return sorted(self.train, key=lambda task: _rank(self._seed, f"epoch {epoch}", task.name))


def _rank(seed: int, use: str, name: str) -> int:
    """A number of 64 bits that depends on nothing else."""
    digest = hashlib.sha256(f"{seed}\n{use}\n{name}".encode()).digest()
    return int.from_bytes(digest[: _RANK_BITS // 8])


def read_catalog(settings: TaskSettings) -> Catalog:
    """Read all tasks that the settings name. It takes a while, and blocks.

    Raises:
        NoTasksError: none of them can be read.
        DatasetError: the dataset cannot be loaded.
    """
    return Catalog(
        _found(settings),
        source=settings.source,
        ratio=settings.eval_split_ratio,
        seed=settings.seed,
    )


def _found(settings: TaskSettings) -> list[Task | Unreadable]:
    options = Options(image=settings.image)
    if settings.dataset is not None:
        return hub.load(settings.dataset, settings, options)
    if settings.path is not None:
        return load(
            settings.path,
            options,
            tasks_base_dir=settings.tasks_base_dir,
            limit=settings.limit,
        )
    return builtin.load(options, limit=settings.limit)
