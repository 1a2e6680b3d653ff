"""Fields of a dataset's row."""

from collections.abc import Mapping
from typing import Any

from trainer_bridge.sources.errors import UnusableError

Row = Mapping[str, Any]
"""The fields of a row; one without a value is left out."""


def text(row: Row, field: str) -> str:
    """The text of a field.

    Raises:
        UnusableError: there is none.
    """
    found = optional_text(row, field)
    if found is None:
        raise UnusableError(f"the row has no text in its field `{field}`")
    return found


def optional_text(row: Row, *fields: str) -> str | None:
    """The text of the first field that has one; None if all are missing or blank.

    Raises:
        UnusableError: a field before it is something else than text.
    """
    for field in fields:
        value = row.get(field, "")
        if not isinstance(value, str):
            raise UnusableError(f"the row's field `{field}` is not text")
        if value.strip():
            return value
    return None
