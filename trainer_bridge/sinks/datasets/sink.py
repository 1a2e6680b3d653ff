"""A folder that groups are written to, each as one file named after it.

A file is there as a whole or not at all, and the same group always gives the same file. So a send
has no unclear end, and sending again replaces what is there by itself.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from episode_operator.api.labels import label_value
from trainer_bridge.sinks import files, records
from trainer_bridge.sinks.base import Demand, SinkError
from trainer_bridge.sinks.datasets import card, jsonl
from trainer_bridge.sinks.datasets.rows import Row, rows
from trainer_bridge.sinks.datasets.settings import DatasetSettings
from trainer_bridge.sinks.page import SHOWN_COLUMNS, SHOWN_GROUPS, page
from trainer_bridge.training import TrainingGroup

PAGE = "index.html"


class Format(Protocol):
    """How rows become files: the modules `parquet` and `jsonl`."""

    def encode(self, rows: Sequence[Row]) -> bytes:
        """The rows as one file; deterministic."""

    def decode(self, data: bytes, columns: Sequence[str]) -> list[Row]:
        """Some columns of what `encode` gave; ValueError where it is not that, or not whole."""


class DatasetSink:
    """Writes `data/<group>.parquet` or `.jsonl`, `README.md`, and at the end `index.html`.

    A name of more than 63 characters is cut and hashed.

    Raises:
        SinkError: Parquet is asked for without pyarrow.
    """

    def __init__(self, settings: DatasetSettings) -> None:
        self._settings = settings
        self._format = _format(settings.kind)
        self._suffix = f".{settings.kind}"
        self._data = settings.folder / "data"

    async def open(self) -> None:
        """Make the folder and its card; a card that is there is the user's to keep.

        Raises:
            SinkError: the folder cannot be used, or holds files of another kind.
        """
        await asyncio.to_thread(self._open)

    async def demand(self) -> Demand:
        """A folder wants all it can get."""
        return Demand()

    def check(self, group: TrainingGroup) -> None:
        """Look for what would be wrong or lost in a file.

        Raises:
            RefusedError: as `records.check` and `rows`.
        """
        records.check(group)
        rows(group, self._settings)

    async def send(self, group: TrainingGroup) -> None:
        """Write the group's file; on return it is on the disk.

        Raises:
            NotSentError: the file cannot be written.
            RefusedError: as `rows`.
            SinkError: it cannot be read, or another group of this name is there.
        """
        await asyncio.to_thread(self._send, group)

    async def arrived(self, group: TrainingGroup) -> bool:
        """Whether the group's file is there with all of its members.

        Raises:
            SinkError: it cannot be read.
        """
        return await asyncio.to_thread(lambda: self._held(group) == _uids(group))

    async def close(self) -> None:
        """Write the page of the groups written last.

        Raises:
            SinkError: a file of the dataset cannot be read, or the page not be written.
        """
        await asyncio.to_thread(self._write_page)

    def _open(self) -> None:
        files.prepare(self._settings.folder)
        files.prepare(self._data)
        other = ".jsonl" if self._suffix == ".parquet" else ".parquet"
        if any(self._data.glob(f"*{other}")):
            raise SinkError(f"{self._data} holds {other} files; choose another folder or kind")
        readme = self._settings.folder / card.NAME
        found = files.read(readme)
        if found is None:
            files.write(readme, card.card(self._suffix).encode())
        elif card.pattern(self._suffix).encode() not in found:
            raise SinkError(
                f"{readme} does not lead to {card.pattern(self._suffix)}; remove it, or choose "
                "another folder"
            )

    def _path(self, group: TrainingGroup) -> Path:
        return self._data / f"{label_value(group.name)}{self._suffix}"

    def _send(self, group: TrainingGroup) -> None:
        held = self._held(group)
        if held is not None and held != _uids(group):
            raise SinkError(
                f"{self._path(group)} holds other Episodes, of an earlier run of the same name; "
                "choose another folder, or another name for the run"
            )
        files.write(self._path(group), self._format.encode(rows(group, self._settings)))

    def _held(self, group: TrainingGroup) -> list[str] | None:
        """Uids of the Episodes in the group's file; None without one that is whole."""
        data = files.read(self._path(group))
        if data is None:
            return None
        try:
            return [row["uid"] for row in self._format.decode(data, ["uid"])]
        except ValueError:
            return None

    def _write_page(self) -> None:
        written = sorted(
            self._data.glob(f"*{self._suffix}"),
            key=lambda path: (path.stat().st_mtime_ns, path.name),
        )
        shown = [self._shown(path) for path in written[-SHOWN_GROUPS:]]
        files.write(self._settings.folder / PAGE, page(shown, groups=len(written)).encode())

    def _shown(self, path: Path) -> Sequence[Row]:
        try:
            return self._format.decode(files.read(path) or b"", SHOWN_COLUMNS)
        except ValueError as error:
            raise SinkError(f"{path} is damaged: {error}; remove it") from error


def _uids(group: TrainingGroup) -> list[str]:
    return [record.result.spec.episode.uid for record in group.members]


def _format(kind: str) -> Format:
    if kind == "jsonl":
        return jsonl
    try:
        from trainer_bridge.sinks.datasets import parquet  # noqa: PLC0415 (an extra)
    except ModuleNotFoundError as error:
        raise SinkError(
            f"{error.name} is missing: pip install '.[bridge]' in the repository, or kind: jsonl"
        ) from error
    return parquet
