"""Spans of clients: written where the program traces, joined to the change that was waited for."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from hightide import tracing
from hightide.cluster.leader_waits import GroupOrder, LeaderWait
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

CHANGE = f"00-{'a' * 32}-{'b' * 16}-01"
WAIT = LeaderWait("flights", 12, tuple(range(10)), 7, CHANGE, 1_000.0, 1_250.0)


@pytest.fixture
def written() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.use(lambda: provider)
    yield exporter
    tracing.use(None)


def test_a_wait_of_a_producer_is_a_span_below_the_leader_change(written: InMemorySpanExporter) -> None:
    tracing.Reporter("send", "loader").report([WAIT], now_ms=2_000.0)
    (span,) = written.get_finished_spans()
    assert (span.name, span.kind) == ("send flights", trace.SpanKind.PRODUCER)
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == "a" * 32
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == "b" * 16
    assert dict(span.attributes or {}) == {
        "messaging.system": "hightide",
        "messaging.client.id": "loader",
        "messaging.destination.name": "flights",
        "partition_count": 12,
        "partition_sample": ", ".join(f"flights-{at}" for at in range(10)),
        "leader_epoch": 7,
        "waited_ms": 250.0,
    }
    assert span.start_time is not None
    assert span.end_time is not None
    assert (span.end_time - span.start_time) / 1e6 == pytest.approx(250, abs=0.01)


def test_a_wait_of_a_consumer_is_a_poll(written: InMemorySpanExporter) -> None:
    tracing.Reporter("poll", None).report([WAIT], now_ms=2_000.0)
    (span,) = written.get_finished_spans()
    assert (span.name, span.kind) == ("poll flights", trace.SpanKind.CONSUMER)


@pytest.mark.parametrize("nonsense", ["", "00-zz", f"00-{'0' * 32}-{'b' * 16}-01"])
def test_without_a_trace_to_join_the_span_begins_its_own(
    written: InMemorySpanExporter, nonsense: str
) -> None:
    wait = LeaderWait("flights", 1, (0,), 7, nonsense, 1_000.0, 1_250.0)
    tracing.Reporter("send", None).report([wait], now_ms=2_000.0)
    (span,) = written.get_finished_spans()
    assert span.parent is None


@pytest.mark.parametrize(("is_start", "name"), [(True, "start partitions"), (False, "stop partitions")])
def test_an_order_of_the_coordinator_is_a_span_of_the_rebalance(
    written: InMemorySpanExporter, is_start: bool, name: str
) -> None:
    order = GroupOrder("readers", is_start, 4, 2, ("flights-0", "flights-1"), CHANGE, 10.0, 30.0)
    tracing.Reporter("poll", "r-1").report([order], now_ms=30.0)
    (span,) = written.get_finished_spans()
    assert span.name == name
    attributes = span.attributes or {}
    assert (attributes["generation"], attributes["partition_sample"]) == (4, "flights-0, flights-1")
    assert attributes["messaging.consumer.group.name"] == "readers"


def test_a_provider_that_fails_costs_the_client_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> TracerProvider:
        raise OSError("no space left on device")

    tracing.use(broken)
    try:
        tracing.Reporter("send", None).report([WAIT], now_ms=2_000.0)
    finally:
        tracing.use(None)
    assert "a span was lost" in caplog.text


def test_calls_carry_the_programs_current_span() -> None:
    assert tracing.call_metadata() is None
    with TracerProvider().get_tracer("mine").start_as_current_span("nightly") as span:
        context = span.get_span_context()
        flags = int(context.trace_flags)
        expected = f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags:02x}"
        assert tracing.call_metadata() == (("traceparent", expected),)
    assert tracing.current_traceparent() == ""


def test_a_program_without_opentelemetry_imports_none() -> None:
    code = (
        "import sys; from hightide import Producer, Admin, tracing\n"
        "Producer('127.0.0.1:1').close(); Admin('127.0.0.1:1').close()\n"
        "assert not tracing.is_wanted() and tracing.call_metadata() is None\n"
        "print(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
