"""Where a span is in the trace of an Episode, which gives it its id."""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self
from uuid import UUID

Attribute = str | int | float | bool | None
"""Value of a span's attribute; None leaves it out."""


@dataclass(frozen=True, slots=True)
class EndedSpan:
    """A span; times in seconds since the epoch. `failure` is the reason where it failed."""

    name: str
    trace_id: int
    span_id: int
    parent_id: int | None
    start: float
    end: float
    attributes: Mapping[str, str | int | float | bool]
    failure: str | None


class SpanExport(Protocol):
    """Takes ended spans. It never blocks and never raises."""

    def __call__(self, span: EndedSpan, /) -> None:
        """Take a span."""

    def close(self) -> None:
        """Send what is left, within some seconds; this blocks."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of one span. Without an `export` nothing is traced, and all of it is one place."""

    export: SpanExport | None = None
    name: str = ""
    trace_id: int = 0
    span_id: int = 0
    parent_id: int | None = None

    @classmethod
    def of_episode(cls, export: SpanExport | None, uid: str) -> "Place":
        """The place of the whole Episode with this uid, a UUID."""
        if export is None:
            return cls()
        return cls(export, "episode", UUID(uid).int, _identifier(uid))

    def child(self, name: str, number: int = 0) -> Self:
        """The place of the span `name`, the `number`th of that name inside this one."""
        if self.export is None:
            return self
        identifier = _identifier(f"{self.trace_id}/{self.span_id}/{name}/{number}")
        return type(self)(self.export, name, self.trace_id, identifier, self.span_id)

    def ended(
        self,
        *,
        start: float,
        end: float | None = None,
        failure: str | None = None,
        attributes: Mapping[str, Attribute],
    ) -> None:
        """Tell that the span here has ended, now unless `end` says when."""
        if self.export is None:
            return
        known = {key: value for key, value in attributes.items() if value is not None}
        until = max(start, time.time() if end is None else end)
        self.export(
            EndedSpan(
                self.name,
                self.trace_id,
                self.span_id,
                self.parent_id,
                start,
                until,
                known,
                failure,
            )
        )


def _identifier(text: str) -> int:
    """A span's id, not 0, which is none."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) or 1
