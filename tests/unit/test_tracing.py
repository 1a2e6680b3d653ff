"""Traces: ids that two operators share, what is told and what is not, and collectors that are away.

The spans are made by the real SDK.
"""

import asyncio
import logging
import time
from uuid import UUID

import pytest
from opentelemetry.trace import StatusCode

from episode_operator.tracing import Place, Trace, TracingError, from_environment
from tests.fakes.collector import Collector
from tests.fakes.collector import attributes as collected
from tests.ports import free_port
from tests.unit.builders import UID
from tests.unit.spans import KeptSpans, attributes, ids

VARIABLES = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
)


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def attempt(kept: KeptSpans, number: int = 0) -> Trace:
    return Trace(Place.of_episode(kept.export, UID).child("attempt", number))


def turn(trace: Trace, number: int) -> None:
    with trace.span("agent"), trace.span("turn", number) as span:
        span.tell({"episode.turn": number})


def test_the_trace_of_an_episode_has_its_uid() -> None:
    kept = KeptSpans()
    root = Place.of_episode(kept.export, UID)
    root.child("attempt").ended(start=2.0, end=3.5, attributes={"a": 1, "b": None})
    root.ended(start=1.0, attributes={})
    inner, outer = kept.all()
    assert inner.name == "attempt" and outer.name == "episode"
    trace_id, span_id, parent = ids(outer)
    assert trace_id == UUID(UID).int and parent is None
    assert ids(inner)[0] == trace_id and ids(inner)[2] == span_id
    assert (inner.start_time, inner.end_time) == (2_000_000_000, 3_500_000_000)
    assert attributes(inner) == {"a": 1}
    assert outer.resource.attributes["service.name"] == "episode-operator"


def test_two_operators_give_a_span_one_id_and_others_other_ids() -> None:
    first, second = KeptSpans(), KeptSpans()
    for kept in (first, second):
        turn(attempt(kept), 3)
    assert ids(first.one("turn")) == ids(second.one("turn"))
    turn(attempt(first), 4)
    turn(attempt(first, 1), 4)
    assert len({ids(span) for span in first.all()}) == 3


def test_a_child_names_the_span_that_another_operator_tells() -> None:
    kept, later = KeptSpans(), KeptSpans()
    turn(attempt(kept), 0)
    with attempt(later).span("agent") as span:
        span.tell({})
    assert ids(kept.one("turn"))[2] == ids(later.one("agent"))[1]
    assert kept.names() == ["turn"], "the agent has not ended here"


def test_what_is_raised_is_told_once_it_is_known_what_it_means() -> None:
    kept = KeptSpans()
    trace = attempt(kept)
    with pytest.raises(ValueError, match="x"), trace.span("agent"), trace.span("turn") as span:
        span.start -= 100
        raise ValueError("x")
    assert kept.all() == []
    trace.failed("OOMKilled")
    trace.failed("OOMKilled")
    assert kept.names() == ["turn", "agent"]
    told = kept.one("turn")
    assert (told.status.status_code, told.status.description) == (StatusCode.ERROR, "OOMKilled")
    assert told.start_time is not None and told.end_time is not None
    assert 100e9 <= told.end_time - told.start_time < 160e9
    assert told.events == (), "no exception, whose text may be anybody's"


def test_what_was_raised_and_caught_is_not_told() -> None:
    kept = KeptSpans()
    trace = attempt(kept)
    with trace.span("agent") as span:
        try:
            with trace.span("turn"):
                raise ValueError("the agent had ended here")
        except ValueError:
            span.tell({})
    trace.failed("OOMKilled")
    assert kept.names() == ["agent"]


def test_a_sampler_keeps_all_spans_of_a_trace_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for ratio, names in (("1", ["attempt", "episode"]), ("0", [])):
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
        monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", ratio)
        kept = KeptSpans()
        root = Place.of_episode(kept.export, UID)
        root.child("attempt").ended(start=1.0, attributes={})
        root.ended(start=1.0, attributes={})
        assert kept.names() == names


def test_the_variables_name_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "episodes-staging")
    kept = KeptSpans()
    Place.of_episode(kept.export, UID).ended(start=1.0, attributes={})
    assert kept.one("episode").resource.attributes["service.name"] == "episodes-staging"


def test_nothing_is_traced_without_an_endpoint() -> None:
    assert from_environment() is None
    place = Place.of_episode(None, "no uuid")
    assert place.child("attempt") is place
    place.ended(start=1.0, attributes={})
    turn(Trace(), 0)


def test_off_costs_nothing_to_speak_of() -> None:
    trace, count = Trace(), 10_000
    begun = time.process_time()
    for number in range(count):
        turn(trace, number)
    assert (time.process_time() - begun) / count < 100e-6


def test_another_protocol_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(TracingError, match=r"OTEL_EXPORTER_OTLP_PROTOCOL=grpc.*4318"):
        from_environment()


async def test_a_collector_gets_the_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Collector.running() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=episodes")
        export = from_environment()
        assert export is not None
        place = Place.of_episode(export, UID).child("attempt")
        place.ended(start=1.0, end=2.0, attributes={"episode.reward": 0.5})
        await asyncio.to_thread(export.close)
    (span,) = collector.spans
    assert span.trace_id == UUID(UID).bytes and span.parent_span_id
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (10**9, 2 * 10**9)
    assert collected(span) == {"episode.reward": 0.5}
    assert collector.services == {"episode-operator"}
    assert collector.headers[0]["x-tenant"] == "episodes"


def test_a_collector_that_is_away_disturbs_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    export = from_environment()
    assert export is not None
    root, begun = Place.of_episode(export, UID), time.monotonic()
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            root.child("attempt", number).ended(start=1.0, attributes={})
        assert time.monotonic() - begun < 1
        export.close()
    assert time.monotonic() - begun < 10
    complaints = [record.msg for record in caplog.records]
    assert complaints and len(complaints) == len(set(complaints))
