"""A sink for a trainer that reads a folder, and removes each file that it has taken."""

import asyncio
from pathlib import Path
from typing import Any

import orjson

from trainer_bridge.sinks import files
from trainer_bridge.sinks.base import Demand
from trainer_bridge.sinks.checks import check_group
from trainer_bridge.training import TrainingGroup


class FolderSink:
    """Writes `<group>.json`: for each member its uid, reward, tokens, mask and logprobs."""

    def __init__(self, folder: str, most_waiting: int) -> None:
        self._folder = Path(folder)
        self._most_waiting = most_waiting

    async def open(self) -> None:
        await asyncio.to_thread(files.prepare, self._folder)

    async def demand(self) -> Demand:
        waiting = await asyncio.to_thread(lambda: len(list(self._folder.glob("*.json"))))
        return Demand(groups=max(0, self._most_waiting - waiting))

    def check(self, group: TrainingGroup) -> None:
        check_group(group, size=len(group.members))

    async def send(self, group: TrainingGroup) -> None:
        await asyncio.to_thread(files.write, self._path(group), _encoded(group))

    async def arrived(self, group: TrainingGroup) -> bool | None:
        found = await asyncio.to_thread(files.read, self._path(group))
        return True if found == _encoded(group) else None  # it may have been taken already

    async def close(self) -> None:
        """Nobody waits for more."""

    def _path(self, group: TrainingGroup) -> Path:
        return self._folder / f"{group.name}.json"


def _encoded(group: TrainingGroup) -> bytes:
    members: list[dict[str, Any]] = []
    for record in group.members:
        row = record.row
        assert row is not None, "a group is checked before it is sent"
        arrays = {"tokens": row.tokens, "mask": row.mask, "logprobs": row.logprobs}
        uid = record.result.spec.episode.uid
        members.append({"uid": uid, "reward": record.reward, **arrays})
    return orjson.dumps(members, option=orjson.OPT_SERIALIZE_NUMPY)
