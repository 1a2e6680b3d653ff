"""What W&B writes where it is offline."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK = 32_768
"""Of a .wandb file: a LevelDB log after a header of 7 bytes."""


def written(folder: Path) -> list[Any]:
    """The records of the one run below a folder, as W&B's own format has them."""
    from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined] # noqa: PLC0415

    [path] = folder.glob("wandb/offline-run-*/*.wandb")
    data, at, whole, found = path.read_bytes(), 7, b"", []
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
        size, kind = struct.unpack_from("<HB", data, at + 4)
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a whole record, or the last part of one
            found.append(Record.FromString(whole))
            whole = b""
    return found


def history(folder: Path) -> Iterator[dict[str, Any]]:
    """What was logged, row by row, without W&B's own values."""
    for each in written(folder):
        if each.WhichOneof("record_type") == "history":
            items = {"/".join(item.nested_key): item.value_json for item in each.history.item}
            yield {
                name: json.loads(value) for name, value in items.items() if not name.startswith("_")
            }
