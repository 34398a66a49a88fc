"""The traces of a controller that are under way: which goes first, and when each ends."""

from __future__ import annotations

import pytest
from hand_clock import HandClock
from hightide_controller.core.effects import SendLeaderAndIsr
from hightide_controller.tracing.control_trace import ControlTrace
from hightide_controller.tracing.open_traces import CAUSES_MAX, PATIENCE_MS, OpenTraces
from hightide_controller.tracing.span_table import TraceMark
from hightide_runtime.telemetry.span_kinds import TOPIC_CREATION
from hightide_runtime.telemetry.trace_context import root_traceparent
from hightide_runtime.telemetry.tracing import Telemetry


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def traces(clock: HandClock) -> OpenTraces:
    return OpenTraces(clock)


TELLS = SendLeaderAndIsr(2, 50, 5, ())
LIFE = 2, 50


def begun() -> ControlTrace:
    root = root_traceparent(TOPIC_CREATION, "cluster", 1)
    return ControlTrace(TOPIC_CREATION, root, {TraceMark.BEGAN: 0}, Telemetry.off(), {})


def test_a_trace_goes_on_while_something_is_under_way_for_it(traces: OpenTraces, clock: HandClock) -> None:
    trace = begun()
    traces.add("cause", trace)
    trace.wants(TELLS, 0)
    assert traces.settle(0) == []
    assert list(traces.of("cause")) == [trace]
    trace.acknowledged(LIFE, 5, 0)
    assert traces.settle(0) == [trace]
    assert "cause" not in traces


def test_a_trace_that_lasts_too_long_ends_and_is_not_taken_for_done(
    traces: OpenTraces, clock: HandClock
) -> None:
    trace = begun()
    traces.add("cause", trace)
    trace.wants(TELLS, 0)
    clock.now_ms += PATIENCE_MS + 1
    assert traces.settle(0) == []
    assert trace.is_finished
    assert "cause" not in traces


def test_the_traces_of_a_cause_stay_together_until_all_of_them_are_done(
    traces: OpenTraces, clock: HandClock
) -> None:
    first, second = begun(), begun()
    traces.add("cause", first, second)
    second.wants(TELLS, 0)
    assert traces.settle(0) == [first]
    assert list(traces) == [second]
    assert traces.settle(0) == []
    assert "cause" in traces


def test_so_many_causes_are_traced_at_most(traces: OpenTraces, clock: HandClock) -> None:
    room = []
    for number in range(CAUSES_MAX):
        room.append(not traces.is_full)
        traces.add(str(number), begun())
    assert all(room)
    assert traces.is_full


def test_when_a_controller_resigns_none_is_left_open(traces: OpenTraces, clock: HandClock) -> None:
    trace = begun()
    traces.add("cause", trace)
    trace.wants(TELLS, 0)
    traces.finish_all(0)
    assert trace.is_finished
    assert list(traces) == []
