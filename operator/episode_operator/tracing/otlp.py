"""Spans to an OpenTelemetry collector. Batches are sent by a thread of the SDK's."""

import logging
import threading
import time

from opentelemetry import trace as api
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision

from episode_operator.tracing.place import EndedSpan

_SERVICE = "episode-operator"
_CLOSE_SECONDS = 5.0
_COMPLAINT_SECONDS = 300.0
_LOGGERS = (OTLPSpanExporter.__module__, "opentelemetry.sdk._shared_internal")
"""Who complains of spans that are lost."""


class _GivenIds(IdGenerator):
    """The ids of the span that is made next."""

    def __init__(self) -> None:
        self.trace_id = api.INVALID_TRACE_ID
        self.span_id = api.INVALID_SPAN_ID

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


class _Seldom(logging.Filter):
    """Lets one kind of complaint through once in a while: a collector may be away for long."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._last.get(str(record.msg), -_COMPLAINT_SECONDS) < _COMPLAINT_SECONDS:
            return False
        self._last[str(record.msg)] = now
        return True


class OtlpExport:
    """Makes spans of the SDK, and hands them to a processor. Not thread-safe."""

    def __init__(self, processor: SpanProcessor) -> None:
        self._ids = _GivenIds()
        self._provider = TracerProvider(
            # The variables' own name of the service, if they have one, beats ours.
            resource=Resource.create({SERVICE_NAME: _SERVICE}).merge(
                OTELResourceDetector().detect()
            ),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("episode_operator")

    @classmethod
    def to_endpoint(cls) -> "OtlpExport":
        """To the endpoint that the OTEL_* variables name."""
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_Seldom())
        return cls(BatchSpanProcessor(OTLPSpanExporter()))

    def __call__(self, span: EndedSpan, /) -> None:
        """Put the span into the queue; where that is full the oldest one is lost."""
        self._ids.trace_id, self._ids.span_id = span.trace_id, span.span_id
        made = self._tracer.start_span(
            span.name,
            context=self._parent(span),
            attributes=span.attributes,
            start_time=_nanoseconds(span.start),
        )
        if span.failure is not None:
            made.set_status(api.StatusCode.ERROR, span.failure)
        made.end(_nanoseconds(span.end))

    def close(self) -> None:
        """Send what is left, for at most some seconds; this blocks."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)

    def _parent(self, span: EndedSpan) -> Context:
        """The span's parent, which may be told later and by another operator.

        A sampler that keeps only some traces has to say the same of all spans of one.
        """
        if span.parent_id is None:
            return Context()
        sampled = self._provider.sampler.should_sample(None, span.trace_id, span.name)
        kept = sampled.decision is Decision.RECORD_AND_SAMPLE
        flags = api.TraceFlags.SAMPLED if kept else api.TraceFlags.DEFAULT
        parent = api.SpanContext(
            span.trace_id, span.parent_id, is_remote=True, trace_flags=api.TraceFlags(flags)
        )
        return api.set_span_in_context(api.NonRecordingSpan(parent), Context())


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
