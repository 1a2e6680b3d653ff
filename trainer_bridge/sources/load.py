"""Finds the tasks at a path: a task's folder, a folder of such folders, or a file of rows."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from trainer_bridge.sources import agentic_opd, endless_terminals, harbor
from trainer_bridge.sources.errors import Unreadable
from trainer_bridge.sources.task import Options, Task

ROW_FILES = (".jsonl", ".json")


def load(path: Path, options: Options) -> list[Task | Unreadable]:
    """Every task at the path, in a fixed order; the reason instead where one cannot be read."""
    if path.is_dir():
        folders = [path] if _reader(path) else _folders(path)
        if not folders:
            return [Unreadable(path, "there is no task in the folder")]
        return [_try(partial(_read_folder, folder, options)) for folder in folders]
    if path.suffix in ROW_FILES and path.is_file():
        return list(_rows(path, options))
    what = f"neither a folder nor a file of rows ({', '.join(ROW_FILES)})"
    return [Unreadable(path, what if path.exists() else "there is no such file or folder")]


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


def _rows(path: Path, options: Options) -> Iterator[Task | Unreadable]:
    try:
        text = path.read_text()
        rows = _lines(text) if path.suffix == ".jsonl" else _items(text)
    except (OSError, ValueError) as error:
        yield Unreadable(path, str(error))
        return
    for number, row in rows:
        yield _try(partial(_read_row, row, number, path, options))


def _lines(text: str) -> list[tuple[int, Any]]:
    """The lines that are not empty, each a row or what is wrong with it."""
    numbered = enumerate(text.split("\n"), start=1)
    return [(number, _parsed(line)) for number, line in numbered if line.strip()]


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        return error


def _items(text: str) -> list[tuple[int, Any]]:
    items = json.loads(text)
    if not isinstance(items, list):
        raise ValueError("the file is not a JSON list of rows")
    return list(enumerate(items, start=1))


def _read_row(row: Any, number: int, path: Path, options: Options) -> Task:
    where, name = f"{path}:{number}", f"{path.stem}-{number}"
    if isinstance(row, ValueError):
        raise Unreadable(where, f"not JSON: {row}") from row
    if not isinstance(row, dict):
        raise Unreadable(where, "the row is not an object")
    if agentic_opd.is_row(row):
        return agentic_opd.read_row(row, name, where, options)
    return endless_terminals.read_row(row, where, path.parent, options)


def _try(read: Callable[[], Task]) -> Task | Unreadable:
    try:
        return read()
    except Unreadable as error:
        return error
