"""Task sources: each turns the tasks of a dataset into Episodes."""

from trainer_bridge.sources.errors import Unreadable
from trainer_bridge.sources.load import load
from trainer_bridge.sources.task import Build, Options, Task, manifest

__all__ = ["Build", "Options", "Task", "Unreadable", "load", "manifest"]
