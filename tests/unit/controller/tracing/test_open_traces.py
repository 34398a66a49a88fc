"""The traces of a controller that are under way: which goes first, and when each ends."""

from __future__ import annotations

import pytest
from hand_clock import HandClock
from hightide_controller.tracing.control_trace import PATIENCE_MS, ControlTrace
from hightide_controller.tracing.open_traces import CAUSES_MAX, OpenTraces
from hightide_runtime.telemetry.span_kinds import FAILOVER
from hightide_runtime.telemetry.trace_context import root_traceparent
from hightide_runtime.telemetry.tracing import Telemetry


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def traces(clock: HandClock) -> OpenTraces:
    return OpenTraces(clock)


def begun(clock: HandClock) -> ControlTrace:
    root = root_traceparent(FAILOVER, "cluster", 1)
    return ControlTrace(FAILOVER, root, 0, Telemetry.off(), clock, carried_on=False)


def test_a_trace_goes_on_while_something_is_under_way_for_it(traces: OpenTraces, clock: HandClock) -> None:
    trace = begun(clock)
    traces.add("cause", trace)
    trace.informing(2, sequence=5)
    assert traces.settle() == []
    assert list(traces.of("cause")) == [trace]
    trace.acknowledged(2, sequence=5)
    assert traces.settle() == [trace]
    assert "cause" not in traces


def test_a_trace_that_lasts_too_long_ends_and_is_not_taken_for_done(
    traces: OpenTraces, clock: HandClock
) -> None:
    trace = begun(clock)
    traces.add("cause", trace)
    trace.informing(2, sequence=5)
    clock.now_ms += PATIENCE_MS + 1
    assert traces.settle() == []
    assert trace.is_finished
    assert "cause" not in traces


def test_the_traces_of_a_cause_stay_together_until_all_of_them_are_done(
    traces: OpenTraces, clock: HandClock
) -> None:
    first, second = begun(clock), begun(clock)
    traces.add("cause", first, second)
    second.informing(2, sequence=5)
    assert traces.settle() == [first]
    assert list(traces) == [second]
    assert traces.settle() == []
    assert "cause" in traces


def test_so_many_causes_are_traced_at_most(traces: OpenTraces, clock: HandClock) -> None:
    room = []
    for number in range(CAUSES_MAX):
        room.append(not traces.is_full)
        traces.add(str(number), begun(clock))
    assert all(room)
    assert traces.is_full


def test_when_a_controller_resigns_none_is_left_open(traces: OpenTraces, clock: HandClock) -> None:
    trace = begun(clock)
    traces.add("cause", trace)
    trace.informing(2, sequence=5)
    traces.finish_all()
    assert trace.is_finished
    assert list(traces) == []
