"""The spans of an attempt that are under way."""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from episode_operator.tracing.place import Attribute, Place


class Span:
    """What happens in its block. It is told at the end of the block, if `tell` was called.

    Without that another operator has told it: the block only walked a journal. A block that raises
    is not told either, until `Trace.failed` says what that means.
    """

    __slots__ = ("_attributes", "_end", "_place", "_trace", "start", "told")

    def __init__(self, trace: "Trace", place: Place) -> None:
        self._trace = trace
        self._place = place
        self._attributes: Mapping[str, Attribute] = {}
        self._end = 0.0
        self.start = 0.0
        """Set by entering it; to be changed where the work began earlier, in another operator."""
        self.told = False

    def tell(self, attributes: Mapping[str, Attribute]) -> None:
        """The work of the block was done here, at least its end."""
        self.told = True
        self._attributes = attributes

    def export(self, failure: str | None = None) -> None:
        """Hand it on."""
        self._place.ended(
            start=self.start, end=self._end, failure=failure, attributes=self._attributes
        )

    def child(self, name: str, number: int) -> Place:
        """The place of a span inside this one."""
        return self._place.child(name, number)

    def __enter__(self) -> Self:
        self.start = time.time()
        self._trace.enter(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end = time.time()
        self._trace.leave(self, raised=error is not None)


class Trace:
    """Spans inside one place, each in the one that is under way when it begins."""

    def __init__(self, place: Place | None = None) -> None:
        """Without a place nothing is traced."""
        self._place = place or Place()
        self._open: list[Span] = []
        self._raised: list[Span] = []

    def span(self, name: str, number: int = 0) -> Span:
        """A span to be entered, the `number`th of this name in its place."""
        above = self._open[-1].child if self._open else self._place.child
        return Span(self, above(name, number))

    def enter(self, span: Span) -> None:
        """The span begins."""
        self._open.append(span)

    def leave(self, span: Span, *, raised: bool) -> None:
        """The span ends. What was raised inside of one that ends well was no failure."""
        self._open.pop()
        if raised:
            self._raised.append(span)
            return
        self._raised.clear()
        if span.told:
            span.export()

    def failed(self, reason: str) -> None:
        """What the blocks raised ends them for this reason: tell the spans."""
        for span in self._raised:
            span.export(reason)
        self._raised.clear()
