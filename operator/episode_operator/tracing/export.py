"""Whether spans are exported: as the standard OTEL_* variables say."""

import os

from episode_operator.tracing.place import SpanExport

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"


class TracingError(ValueError):
    """A variable asks for what this operator cannot do."""


def from_environment() -> SpanExport | None:
    """The export to the endpoint that the variables name; None where they name none.

    Raises:
        TracingError: they ask for another protocol.
    """
    if not any(os.environ.get(name) for name in _ENDPOINTS):
        return None
    for name in _PROTOCOLS:
        value = os.environ.get(name)
        if value and value != _PROTOCOL:
            raise TracingError(
                f"{name}={value}: spans are sent as {_PROTOCOL} only; unset it, and name the "
                "collector's HTTP port, often 4318"
            )
    from episode_operator.tracing.otlp import OtlpExport  # noqa: PLC0415 (costs nothing when off)

    return OtlpExport.to_endpoint()
