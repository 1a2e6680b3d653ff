"""Task sources: each turns the tasks of a dataset into Episodes."""

from trainer_bridge.sources.catalog import Catalog, read_catalog
from trainer_bridge.sources.errors import (
    DatasetError,
    HubUnreachableError,
    NoTasksError,
    SourceError,
    Unreadable,
)
from trainer_bridge.sources.load import load
from trainer_bridge.sources.settings import TaskSettings
from trainer_bridge.sources.task import Build, Options, Task, manifest

__all__ = [
    "Build",
    "Catalog",
    "DatasetError",
    "HubUnreachableError",
    "NoTasksError",
    "Options",
    "SourceError",
    "Task",
    "TaskSettings",
    "Unreadable",
    "load",
    "manifest",
    "read_catalog",
]
