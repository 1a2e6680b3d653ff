"""Files that are there as a whole or not at all."""

import os
from pathlib import Path
from uuid import uuid4

from trainer_bridge.sinks.base import NotSentError, SinkError, UnknownArrivalError

_LEFTOVERS = ".*.tmp"


def prepare(folder: Path) -> None:
    """Make the folder, and remove what a writer that was stopped has left in it.

    Raises:
        SinkError: the folder cannot be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(_LEFTOVERS):
            leftover.unlink(missing_ok=True)
    except OSError as error:
        raise SinkError(
            f"{folder} cannot be used: {error.strerror}; choose a folder that this user may write"
        ) from error


def write(path: Path, data: bytes) -> None:
    """Write the file, or replace it; on return it is on the disk under its name.

    Raises:
        NotSentError: it cannot be written; what was there before still is.
        UnknownArrivalError: it is there, but may not outlast a loss of power.
    """
    temporary = path.with_name(f".{uuid4().hex}.tmp")
    try:
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise NotSentError(
            f"{path} cannot be written: {error.strerror}; make room, or let this user write there"
        ) from error
    try:
        _sync_folder(path.parent)
    except OSError as error:
        raise UnknownArrivalError(
            f"{path} is written, but may be lost with the power: {error.strerror}"
        ) from error


def read(path: Path) -> bytes | None:
    """What the file holds; None where there is none.

    Raises:
        SinkError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SinkError(
            f"{path} cannot be read: {error.strerror}; let this user read it"
        ) from error


def _sync_folder(folder: Path) -> None:
    """A new name is kept through a loss of power only once its folder is on the disk too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
