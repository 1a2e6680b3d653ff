"""What a user says about tasks: where they are, and which of them are held out."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from trainer_bridge.sources.builtin.terminal import DEFAULT_COUNT, MOST_TASKS, Family

Text = Annotated[str, Field(min_length=1)]
UserPath = Annotated[Path, AfterValidator(Path.expanduser)]
"""A path that may begin with `~`."""

_SOURCES = ("dataset", "path", "builtin")
_USES = {
    "split": ("dataset",),
    "subset": ("dataset",),
    "revision": ("dataset",),
    "cache_dir": ("dataset",),
    "tasks_base_dir": ("dataset", "path"),
}
"""The sources for which a setting has an effect, where that is not all of them."""


class TaskSettings(BaseModel):
    """Tasks to train on and to evaluate on; exactly one of `dataset`, `path` and `builtin`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dataset: Text | None = Field(
        default=None,
        description="Dataset whose rows are tasks: its name on the Hugging Face Hub, or a local "
        "folder or file that the `datasets` library can load.",
    )
    path: UserPath | None = Field(
        default=None,
        description="A task's folder, a folder of task folders (Harbor, Terminal-Bench 2, Endless "
        "Terminals), or a file of rows: .jsonl, or .json with a list.",
    )
    builtin: Literal["coding", "terminal"] | None = Field(
        default=None,
        description="Tasks that come with the bridge: small Python problems, or generated tasks of "
        "one shell command.",
    )
    families: tuple[Family, ...] | None = Field(
        default=None,
        min_length=1,
        description="Families of `builtin: terminal` to make tasks of. Default: all.",
    )
    split: Text = Field(default="train", description="Split of the dataset.")
    subset: Text | None = Field(
        default=None, description="Subset (configuration) of the dataset, where it has several."
    )
    revision: Text | None = Field(
        default=None, description="Branch, tag or commit of a dataset on the Hub."
    )
    cache_dir: UserPath | None = Field(
        default=None, description="Cache of `datasets`; its own default if not given."
    )
    tasks_base_dir: UserPath | None = Field(
        default=None,
        description="Where the folders are that rows name in extra_info.task_dir or "
        "reward_spec.ground_truth. A folder that is not at the path of the row is looked for here "
        "under its last name. Default: the folder of the local dataset or file of rows.",
    )
    image: Text | None = Field(
        default=None,
        description="Image of the tasks, in which {name} and {tag} stand for a task's name and "
        "version. Default: each task's own.",
    )
    eval_split_ratio: float = Field(
        default=0.1, ge=0, lt=1, description="Share of the tasks held out for evaluation."
    )
    seed: int = Field(
        default=42,
        description="Decides which tasks are held out, and the order; of `builtin: terminal` also "
        "the tasks themselves.",
    )
    limit: int | None = Field(
        default=None,
        ge=1,
        description="Read only so many tasks, from the first. Default: all; of `builtin: terminal` "
        f"{DEFAULT_COUNT}, at most {MOST_TASKS}.",
    )

    @model_validator(mode="after")
    def _fit_together(self) -> "TaskSettings":
        given = [name for name in _SOURCES if getattr(self, name) is not None]
        if len(given) != 1:
            what = " and ".join(given) or "none"
            raise ValueError(f"exactly one of {', '.join(_SOURCES)} must be set, not {what}")
        for name, sources in _USES.items():
            if name in self.model_fields_set and given[0] not in sources:
                raise ValueError(f"{name} is only for {' or '.join(sources)}")
        if self.builtin == "terminal" and (self.limit or 0) > MOST_TASKS:
            raise ValueError(f"limit is at most {MOST_TASKS} for builtin terminal")
        if self.builtin != "terminal" and self.families is not None:
            raise ValueError("families is only for builtin terminal")
        return self

    @property
    def source(self) -> str:
        """Where the tasks are, for messages."""
        return self.dataset or (f"builtin {self.builtin}" if self.builtin else str(self.path))
