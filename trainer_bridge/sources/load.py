"""Finds the tasks at a path: a task's folder, a folder of such folders, or a file of rows."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from trainer_bridge.sources import endless_terminals, harbor, rows
from trainer_bridge.sources.collect import Place, collect
from trainer_bridge.sources.errors import Unreadable
from trainer_bridge.sources.task import Options, Task

ROW_FILES = (".jsonl", ".json")


def load(
    path: Path, options: Options, *, tasks_base_dir: Path | None = None, limit: int | None = None
) -> list[Task | Unreadable]:
    """Every task at the path, in a fixed order; the reason instead where one cannot be read.

    Args:
        path: a task's folder, a folder of task folders, or a file of rows.
        options: those for all tasks.
        tasks_base_dir: folder of the task folders that rows name; by default that of the file.
        limit: how many tasks to read, from the first; None for all.
    """
    try:
        return collect(islice(_places(path, options, tasks_base_dir or path.parent), limit))
    except Unreadable as error:
        return [error]


def _places(path: Path, options: Options, base: Path) -> Iterator[Place]:
    if path.is_dir():
        folders = [path] if _reader(path) else _folders(path)
        if not folders:
            raise Unreadable(path, "there is no task in the folder")
        return ((str(folder), partial(_read_folder, folder, options)) for folder in folders)
    if path.suffix in ROW_FILES and path.is_file():
        return rows.places(
            _rows(path), origin=str(path), source=path.stem, base=base, options=options
        )
    what = f"neither a folder nor a file of rows ({', '.join(ROW_FILES)})"
    raise Unreadable(path, what if path.exists() else "there is no such file or folder")


def _folders(path: Path) -> list[Path]:
    return [child for child in sorted(path.iterdir()) if child.is_dir() and child.name[:1] != "."]


def _reader(folder: Path) -> Callable[[Path, Options], Task] | None:
    if (folder / harbor.CONFIG).exists():
        return harbor.read_task
    if endless_terminals.is_task(folder):
        return endless_terminals.read_task
    return None


def _read_folder(folder: Path, options: Options) -> Task:
    read = _reader(folder)
    if read is None:
        raise Unreadable(
            folder, f"no task: there is neither {harbor.CONFIG} nor {endless_terminals.TEST}"
        )
    return read(folder, options)


def _rows(path: Path) -> list[tuple[int, Any]]:
    """The rows by their number from 1, or what is wrong with one."""
    try:
        text = path.read_text()
        found = _lines(text) if path.suffix == ".jsonl" else _items(text)
    except (OSError, ValueError, RecursionError) as error:
        raise Unreadable(path, str(error)) from error
    if not found:
        raise Unreadable(path, "there is no row in the file")
    return found


def _lines(text: str) -> list[tuple[int, Any]]:
    numbered = enumerate(text.split("\n"), start=1)
    return [(number, _parsed(line)) for number, line in numbered if line.strip()]


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return error


def _items(text: str) -> list[tuple[int, Any]]:
    items = json.loads(text)
    if not isinstance(items, list):
        raise ValueError("the file is not a JSON list of rows")
    return list(enumerate(items, start=1))
