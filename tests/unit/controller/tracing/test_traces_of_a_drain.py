"""A broker may be drained and live on: what becomes of it later is another failover."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hand_clock import HandClock
from hightide_controller.core import events as ev
from hightide_controller.core.state.cluster_state import ClusterState, Role
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.tracing.traces import ControllerTraces
from hightide_local.span_files import SpanRecord, read_spans
from hightide_runtime.telemetry.span_kinds import FAILOVER
from hightide_runtime.telemetry.tracing import Telemetry

NAME = TopicPartition("t", 0)


@pytest.fixture
def telemetry(tmp_path: Path) -> Iterator[Telemetry]:
    built = Telemetry.set_up("controller", "1", directory=tmp_path)
    yield built
    built.shut_down()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def traces(telemetry: Telemetry, clock: HandClock) -> ControllerTraces:
    return ControllerTraces("cluster", 1, telemetry, clock)


@pytest.fixture
def state() -> ClusterState:
    """Of an active controller; broker 1 leads a partition."""
    active = ClusterState(1)
    active.role, active.controller_epoch = Role.ACTIVE, 3
    active.brokers[1] = ev.Broker(1, 77, incarnation=4)
    active.led_by[1], active.in_sync_on[1] = {NAME}, {NAME}
    return active


def drain(traces: ControllerTraces, state: ClusterState) -> None:
    cause = traces.failovers.expect("controlled_shutdown", 100)
    traces.before(state, ev.ControlledShutdownRequested(1, 1, 77, cause))
    traces.settle()


def failovers(directory: Path) -> list[SpanRecord]:
    return [span for span in read_spans(directory) if span.name == FAILOVER]


def test_a_drain_and_a_later_death_of_one_registration_are_two_traces(
    traces: ControllerTraces, clock: HandClock, state: ClusterState, tmp_path: Path
) -> None:
    drain(traces, state)
    clock.now_ms += 60_000
    traces.before(state, ev.BrokerProcessDied(1, 77, traces.failovers.expect("process_died", 200)))
    traces.settle()
    drained, died = failovers(tmp_path)
    assert {drained.attributes["reason"], died.attributes["reason"]} == {
        "controlled_shutdown",
        "process_died",
    }
    assert drained.trace_id != died.trace_id
    assert drained.span_id != died.span_id


def test_a_broker_that_asks_to_be_drained_and_stops_at_once_is_one_trace(
    traces: ControllerTraces, clock: HandClock, state: ClusterState, tmp_path: Path
) -> None:
    drain(traces, state)
    clock.now_ms += 5_000
    traces.before(state, ev.BrokerProcessDied(1, 77, traces.failovers.expect("process_died", 200)))
    traces.settle()
    assert len({span.trace_id for span in failovers(tmp_path)}) == 1


def test_what_a_drain_left_over_does_not_change_the_reason_of_its_failover(
    traces: ControllerTraces, clock: HandClock, state: ClusterState, tmp_path: Path
) -> None:
    drain(traces, state)
    state.shutting_down[1] = 77
    clock.now_ms += 100
    state.led_by[1], state.in_sync_on[1] = set(), {TopicPartition("news of an ISR came after the drain", 0)}
    traces.before(state, ev.BrokersChanged((), traces.failovers.expect("session_ended", 200)))
    traces.settle()
    roots = failovers(tmp_path)
    assert len(roots) == 2
    assert {(span.trace_id, span.span_id) for span in roots} == {(roots[0].trace_id, roots[0].span_id)}
    assert {span.attributes["reason"] for span in roots} == {"controlled_shutdown"}


def test_a_drain_that_is_asked_for_again_is_one_trace(
    traces: ControllerTraces, state: ClusterState, tmp_path: Path
) -> None:
    drain(traces, state)
    state.shutting_down[1] = 77
    drain(traces, state)
    assert len({span.trace_id for span in failovers(tmp_path)}) == 1


def test_a_drained_broker_that_leads_nothing_any_more_is_not_drained_again(
    traces: ControllerTraces, state: ClusterState, tmp_path: Path
) -> None:
    drain(traces, state)
    state.shutting_down[1] = 77
    state.led_by[1] = set()
    drain(traces, state)
    assert len(failovers(tmp_path)) == 1
