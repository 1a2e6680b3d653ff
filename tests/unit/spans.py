"""Spans as the SDK makes them, kept in memory."""

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from episode_operator.tracing.otlp import OtlpExport


class KeptSpans:
    """An export, and the spans it was given in their order."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        self.export = OtlpExport(SimpleSpanProcessor(self._kept))

    def all(self) -> list[ReadableSpan]:
        """All of them."""
        return list(self._kept.get_finished_spans())

    def names(self) -> list[str]:
        """Their names."""
        return [span.name for span in self.all()]

    def one(self, name: str) -> ReadableSpan:
        """The only one of this name."""
        (found,) = [span for span in self.all() if span.name == name]
        return found


def ids(span: ReadableSpan) -> tuple[int, int, int | None]:
    """Ids of the trace, of the span and of its parent."""
    context = span.context
    assert context is not None
    return context.trace_id, context.span_id, None if span.parent is None else span.parent.span_id


def attributes(span: ReadableSpan) -> dict[str, object]:
    """Its attributes."""
    return dict(span.attributes or {})
