"""Groups as a dataset: a folder of Parquet or JSONL files that `datasets` loads."""

from trainer_bridge.sinks.datasets.settings import DatasetSettings
from trainer_bridge.sinks.datasets.sink import DatasetSink

__all__ = ["DatasetSettings", "DatasetSink"]
