"""The tasks of a run: those to train on in an endless order, and those held out for evaluation.

Where a task belongs and when its turn is are decided by hashes of the seed and the task's name, by
nothing else. So both are the same after a restart and on every machine, and a task that is added
later moves no other one from one side to the other. Only a source whose held-out tasks are made
apart from those to train on says itself which they are.
"""

import hashlib
from collections.abc import Collection, Sequence
from functools import lru_cache

from trainer_bridge.sources import hub
from trainer_bridge.sources.builtin import coding
from trainer_bridge.sources.builtin.terminal import DEFAULT_COUNT, FAMILIES, episode
from trainer_bridge.sources.errors import NoTasksError, Unreadable
from trainer_bridge.sources.load import load
from trainer_bridge.sources.settings import TaskSettings
from trainer_bridge.sources.task import Options, Task

_EPOCHS_KEPT = 2
"""Groups of the epoch before may still be asked for."""
_RANK_BITS = 64


class Catalog:
    """Readable tasks, each in exactly one of `train` and `evaluation`.

    Unless the source says which are held out, a task is if its hash, as a number from 0 to 1, is
    below the ratio. So the share of those held out is only about the ratio. If a ratio above 0
    leaves one side without tasks, the task nearest to the border changes sides; a single task is
    for training.

    Attributes:
        train: by name; never empty.
        evaluation: in a seeded order, so that the first few are a random sample.
        unreadable: the tasks that cannot be read, with the reasons.
    """

    def __init__(
        self,
        found: Sequence[Task | Unreadable],
        *,
        source: str,
        ratio: float,
        seed: int,
        held_out: Collection[str] | None = None,
    ) -> None:
        """Divide what was found; the names of the tasks must differ.

        `held_out` are the names of the tasks that the source holds out, not all of them; None
        leaves it to the ratio.

        Raises:
            NoTasksError: none of it can be read.
        """
        self.unreadable = tuple(one for one in found if isinstance(one, Unreadable))
        tasks = {one.name: one for one in found if not isinstance(one, Unreadable)}
        if not tasks:
            raise NoTasksError(source, self.unreadable)
        ranked = sorted(tasks, key=lambda name: _rank(seed, "split", name))
        held = set(ranked[: _below(ratio, seed, ranked)] if held_out is None else held_out)
        self.evaluation = tuple(tasks[name] for name in ranked if name in held)
        self.train = tuple(tasks[name] for name in sorted(tasks) if name not in held)
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


def _below(ratio: float, seed: int, ranked: Sequence[str]) -> int:
    """How many of the names, in the order of their ranks, are held out at this ratio."""
    border: float = ratio * 2**_RANK_BITS
    count = sum(_rank(seed, "split", name) < border for name in ranked)
    return min(max(count, 1), len(ranked) - 1) if ratio > 0 else count


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
    found, held_out = _found(settings)
    return Catalog(
        found,
        source=settings.source,
        ratio=settings.eval_split_ratio,
        seed=settings.seed,
        held_out=held_out,
    )


def _found(settings: TaskSettings) -> tuple[list[Task | Unreadable], Collection[str] | None]:
    """The tasks, and the names of those held out where the source says so."""
    options = Options(image=settings.image)
    if settings.dataset is not None:
        return hub.load(settings.dataset, settings, options), None
    if settings.path is not None:
        base, limit = settings.tasks_base_dir, settings.limit
        return load(settings.path, options, tasks_base_dir=base, limit=limit), None
    if settings.builtin == "coding":
        return coding.load(options, limit=settings.limit), None
    return episode.load(
        options,
        seed=settings.seed,
        count=settings.limit or DEFAULT_COUNT,
        ratio=settings.eval_split_ratio,
        families=settings.families or FAMILIES,
    )
