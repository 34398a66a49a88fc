"""A broker may be drained and live on: what becomes of it later is another failover."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hand_clock import HandClock
from hightide_controller.core import events as ev
from hightide_controller.tracing.traces import ControllerTraces
from hightide_local.traces.span_files import SpanRecord, read_spans
from hightide_runtime.telemetry.span_kinds import FAILOVER
from hightide_runtime.telemetry.tracing import Telemetry
from unit.controller.controller_world import FLIGHTS, World, broker
from unit.controller.tracing.traced_world import traced_world

ALONE, WITH_ANOTHER = (1,), (1, 2)
"""The replicas of a partition that broker 1 leads: the other one takes it over, or there is none."""


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


def drain(world: World, traces: ControllerTraces) -> None:
    cause = traces.failovers.expect("controlled_shutdown", 100)
    world.send(ev.ControlledShutdownRequested(1, 1, 101, cause))
    world.settle()
    world.acknowledge_all()


def dies(world: World, traces: ControllerTraces) -> None:
    world.send(ev.BrokerProcessDied(1, 101, traces.failovers.expect("process_died", 200)))
    world.settle()
    world.acknowledge_all()


def failovers(directory: Path) -> list[SpanRecord]:
    return [span for span in read_spans(directory) if span.name == FAILOVER]


def test_a_drain_and_a_later_death_of_one_registration_are_two_traces(
    traces: ControllerTraces, clock: HandClock, tmp_path: Path
) -> None:
    world = traced_world(traces, clock, ALONE)
    drain(world, traces)
    clock.now_ms += 60_000
    dies(world, traces)
    drained, died = failovers(tmp_path)
    assert {drained.attributes["reason"], died.attributes["reason"]} == {
        "controlled_shutdown",
        "process_died",
    }
    assert drained.trace_id != died.trace_id
    assert drained.span_id != died.span_id


def test_a_broker_that_asks_to_be_drained_and_stops_at_once_is_one_trace(
    traces: ControllerTraces, clock: HandClock, tmp_path: Path
) -> None:
    world = traced_world(traces, clock, ALONE)
    drain(world, traces)
    clock.now_ms += 5_000
    dies(world, traces)
    assert len({span.trace_id for span in failovers(tmp_path)}) == 1


def test_what_a_drain_left_over_does_not_change_the_reason_of_its_failover(
    traces: ControllerTraces, clock: HandClock, tmp_path: Path
) -> None:
    world = traced_world(traces, clock, WITH_ANOTHER)
    drain(world, traces)
    world.leader_writes_isr(FLIGHTS, 2, 1)  # News of an ISR comes after the drain.
    world.send(ev.Ticked())
    world.settle()
    clock.now_ms += 100
    world.send(ev.BrokersChanged((broker(2),), traces.failovers.expect("session_ended", 200)))
    world.settle()
    world.acknowledge_all()
    roots = failovers(tmp_path)
    assert len(roots) == 2
    assert {(span.trace_id, span.span_id) for span in roots} == {(roots[0].trace_id, roots[0].span_id)}
    assert {span.attributes["reason"] for span in roots} == {"controlled_shutdown"}


def test_a_drain_that_is_asked_for_again_is_one_trace(
    traces: ControllerTraces, clock: HandClock, tmp_path: Path
) -> None:
    world = traced_world(traces, clock, ALONE)
    drain(world, traces)
    drain(world, traces)
    roots = failovers(tmp_path)
    assert len(roots) == 2
    assert len({span.trace_id for span in roots}) == 1


def test_a_drained_broker_that_leads_nothing_any_more_is_not_drained_again(
    traces: ControllerTraces, clock: HandClock, tmp_path: Path
) -> None:
    world = traced_world(traces, clock, WITH_ANOTHER)
    drain(world, traces)
    drain(world, traces)
    assert len(failovers(tmp_path)) == 1
