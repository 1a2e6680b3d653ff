"""Rows of datasets: of which kind each one is, and what its task is called."""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from trainer_bridge.sources import agentic_opd, endless_terminals, humaneval
from trainer_bridge.sources.collect import Place
from trainer_bridge.sources.errors import Unreadable, UnusableError
from trainer_bridge.sources.fields import Row
from trainer_bridge.sources.task import Options, Task

_KINDS = (
    "task and test_code (AgenticOPD), prompt, test and entry_point (HumanEval), "
    "extra_info.task_dir or reward_spec.ground_truth (Endless Terminals)"
)


def places(
    rows: Iterable[tuple[int, Any]], *, origin: str, source: str, base: Path, options: Options
) -> Iterator[Place]:
    """The places of numbered rows.

    Args:
        rows: each with its number in the dataset.
        origin: where the rows are from, for messages.
        source: name of the dataset, with which the names of its tasks begin.
        base: folder of the task folders that rows name.
        options: those for all tasks.
    """
    for number, value in rows:
        where = f"{origin}:{number}"
        yield (
            where,
            partial(_read, value, where, f"{source}-{number}", source, base=base, options=options),
        )


def _read(
    value: Any, where: str, numbered: str, source: str, *, base: Path, options: Options
) -> Task:
    if isinstance(value, Exception):
        raise Unreadable(where, f"not JSON: {value}") from value
    if not isinstance(value, dict):
        raise Unreadable(where, "the row is not an object")
    row = {field: each for field, each in value.items() if each is not None}
    try:
        if agentic_opd.is_row(row):
            name = _identifier(row, source) or numbered
            return agentic_opd.read_row(row, name, where, options)
        if humaneval.is_row(row):
            return humaneval.read_row(row, where, options)
        if endless_terminals.is_row(row):
            return endless_terminals.read_row(row, where, base, options)
    except UnusableError as error:
        raise Unreadable(where, str(error)) from error
    raise Unreadable(
        where, f"no kind of row is known with the fields {', '.join(row)}; known are {_KINDS}"
    )


def _identifier(row: Row, source: str) -> str | None:
    """The row's `task_id`, after the dataset's name if it is a number.

    None if there is none, or if nothing of it can be in the name of a Kubernetes object.
    """
    match row.get("task_id"):
        case int() as number:
            return f"{source}-{number}"
        case str() as name:
            return name if re.search(r"[A-Za-z0-9]", name) else None
        case None:
            return None
    raise UnusableError("the row's field `task_id` is neither text nor a whole number")
