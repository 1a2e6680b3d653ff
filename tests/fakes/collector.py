"""An OpenTelemetry collector that keeps the spans it is sent, by OTLP over HTTP."""

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """`spans` are in the order in which they came."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Span] = []
        self.services: set[str] = set()
        self.headers: list[dict[str, str]] = []

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator[Self]:
        """A collector on a free port of the loopback."""
        collector = cls()
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/traces", collector._take)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield collector
        finally:
            await runner.cleanup()

    def named(self, name: str) -> list[Span]:
        """The spans of this name."""
        return [span for span in self.spans if span.name == name]

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        if body.startswith(b"\x1f\x8b"):
            body = gzip.decompress(body)
        sent = ExportTraceServiceRequest.FromString(body)
        for resource in sent.resource_spans:
            told = {one.key: one.value.string_value for one in resource.resource.attributes}
            self.services.add(told["service.name"])
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)
        self.headers.append(dict(request.headers))
        answer = ExportTraceServiceResponse().SerializeToString()
        return web.Response(body=answer, content_type="application/x-protobuf")


def attributes(span: Span) -> dict[str, object]:
    """The span's attributes."""
    return {
        one.key: getattr(one.value, kind)
        for one in span.attributes
        if (kind := one.value.WhichOneof("value")) is not None
    }
