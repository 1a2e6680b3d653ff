"""The dataset card: with it `load_dataset(folder)` finds the files and their types."""

from typing import Any

import yaml

from trainer_bridge.sinks.datasets.columns import COLUMNS

NAME = "README.md"

_TEXT = """
Episodes with a verdict, one a row; each file is one training group. The columns are described in
docs/datasets.md of Episode Operator.

    from datasets import load_dataset
    episodes = load_dataset("path/of/this/folder", split="train")
"""


def pattern(suffix: str) -> str:
    """Where the files are, from the folder of the card."""
    return f"data/*{suffix}"


def card(suffix: str) -> str:
    """The card of a folder whose files end in `suffix`."""
    front = {
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": "train", "path": pattern(suffix)}],
            }
        ],
        "dataset_info": {"features": [_named(name, kind) for name, kind in COLUMNS.items()]},
    }
    return f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n{_TEXT}"


def _named(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, **_feature(kind)}


def _feature(kind: Any) -> dict[str, Any]:
    """A type of COLUMNS as `datasets` writes it into cards."""
    if isinstance(kind, dict):
        return {"struct": [_named(name, part) for name, part in kind.items()]}
    if isinstance(kind, list):
        [item] = _feature(kind[0]).items()
        return {"list": {item[0]: item[1]} if item[0] == "list" else item[1]}
    return {"dtype": kind}
