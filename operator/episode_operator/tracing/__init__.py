"""Traces: one per Episode, with its uid as the trace's id, and spans that are told when they end.

A span's id is made of its place in the trace. So the spans of two operators that drive an Episode
one after the other belong together, and one that both should tell is still one span.
"""

from episode_operator.tracing.export import TracingError, from_environment
from episode_operator.tracing.place import Attribute, EndedSpan, Place, SpanExport
from episode_operator.tracing.trace import Span, Trace

__all__ = [
    "Attribute",
    "EndedSpan",
    "Place",
    "Span",
    "SpanExport",
    "Trace",
    "TracingError",
    "from_environment",
]
