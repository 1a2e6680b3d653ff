"""A folder of trajectories: one JSON file for each Episode."""

import asyncio
from pathlib import Path
from typing import Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field

from episode_operator.api.labels import label_value
from episode_operator.results.record import EpisodeRecord
from trainer_bridge.sinks import files, records
from trainer_bridge.sinks.atif.trajectory import trajectory
from trainer_bridge.sinks.base import Demand, NotSentError, UnknownArrivalError
from trainer_bridge.training import TrainingGroup


class AtifSettings(BaseModel):
    """Trajectories in a folder (docs/datasets.md)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["atif"] = Field(default="atif", description="This sink.")
    folder: Path = Field(description="Folder of the trajectories.")


class AtifSink:
    """Writes `<EpisodeResult>.json`; that name is of one Episode only, also among later ones.

    A name of more than 63 characters is cut and hashed. The same Episode always gives the same
    file, so what is sent again replaces itself.
    """

    def __init__(self, settings: AtifSettings) -> None:
        self._folder = settings.folder

    async def open(self) -> None:
        """Make the folder.

        Raises:
            SinkError: it cannot be used.
        """
        await asyncio.to_thread(files.prepare, self._folder)

    async def demand(self) -> Demand:
        """A folder wants all it can get."""
        return Demand()

    def check(self, group: TrainingGroup) -> None:
        """Look for what would be wrong or lost in a trajectory.

        Raises:
            RefusedError: as `records.check` and `trajectory`.
        """
        records.check(group)
        for record in group.members:
            trajectory(record, group)

    async def send(self, group: TrainingGroup) -> None:
        """Write the file of each member; on return they are on the disk.

        Raises:
            NotSentError: the first file cannot be written.
            UnknownArrivalError: some files are written, and not all.
            RefusedError: as `trajectory`.
        """
        await asyncio.to_thread(self._send, group)

    async def arrived(self, group: TrainingGroup) -> bool:
        """Whether every member's file is there.

        Raises:
            SinkError: one cannot be read.
        """
        return await asyncio.to_thread(self._arrived, group)

    async def close(self) -> None:
        """Nobody waits for more."""

    def _path(self, record: EpisodeRecord) -> Path:
        return self._folder / f"{label_value(record.result.metadata['name'])}.json"

    def _send(self, group: TrainingGroup) -> None:
        for number, record in enumerate(group.members):
            data = orjson.dumps(trajectory(record, group), option=orjson.OPT_APPEND_NEWLINE)
            try:
                files.write(self._path(record), data)
            except NotSentError as error:
                if number == 0:
                    raise
                raise UnknownArrivalError(f"{number} members are written: {error}") from error

    def _arrived(self, group: TrainingGroup) -> bool:
        return all(
            _session(files.read(self._path(record))) == record.result.spec.episode.uid
            for record in group.members
        )


def _session(data: bytes | None) -> str | None:
    """The session of a trajectory; None where there is none that is whole."""
    try:
        found = orjson.loads(data or b"")
    except orjson.JSONDecodeError:
        return None
    return found.get("session_id") if isinstance(found, dict) else None
