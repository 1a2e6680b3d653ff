"""Task folders of Harbor and Terminal-Bench 2."""

from trainer_bridge.sources.harbor.task import CONFIG, HarborTask, read_task

__all__ = ["CONFIG", "HarborTask", "read_task"]
