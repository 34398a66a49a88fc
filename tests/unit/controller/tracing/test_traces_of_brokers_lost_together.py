"""Brokers that are lost before the leaders of the first one are stored: one failover, told as one trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hand_clock import HandClock
from hightide_controller.core import events as ev
from hightide_controller.tracing.traces import ControllerTraces
from hightide_local.traces.trace_lookup import Trace, failovers
from hightide_runtime.telemetry import span_kinds
from hightide_runtime.telemetry.tracing import Telemetry
from unit.controller.controller_world import World
from unit.controller.tracing.traced_world import traced_world


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def traces(tmp_path: Path, clock: HandClock) -> Iterator[ControllerTraces]:
    telemetry = Telemetry.set_up("controller", "1", directory=tmp_path)
    yield ControllerTraces("cluster", 1, telemetry, clock)
    telemetry.shut_down()


@pytest.fixture
def world(traces: ControllerTraces, clock: HandClock) -> World:
    """Of an active controller; brokers 1 and 2 lead a partition each, and 3 follows."""
    return traced_world(traces, clock, (2, 1, 3), (1, 2, 3))


def dies(world: World, traces: ControllerTraces, clock: HandClock, broker_id: int) -> str:
    """Returns the cause."""
    cause = traces.failovers.expect("process_died", clock.wall_us() - 1_000)
    world.send(ev.BrokerProcessDied(broker_id, 100 + broker_id, cause))
    return cause


def the_trace(directory: Path) -> Trace:
    (trace,) = failovers(directory)
    return trace


def test_a_broker_lost_while_leaders_are_stored_for_another_is_part_of_that_failover(
    world: World, traces: ControllerTraces, clock: HandClock, tmp_path: Path
) -> None:
    first = dies(world, traces, clock, 2)
    clock.now_ms += 4
    second = dies(world, traces, clock, 1)
    assert traces.traceparent_of(second) == traces.traceparent_of(first) != ""
    clock.now_ms += 6
    world.settle()
    world.acknowledge_all()
    root = the_trace(tmp_path).root
    assert root.attributes["broker_ids"] == "2,1"
    assert [span.start_us for span in the_trace(tmp_path).named(span_kinds.BROKER_DOWN)] == [
        999_999_000,
        1_000_003_000,
    ]


def test_a_broker_lost_after_the_leaders_are_stored_is_a_failover_of_its_own(
    world: World, traces: ControllerTraces, clock: HandClock, tmp_path: Path
) -> None:
    first = dies(world, traces, clock, 2)
    world.settle()
    second = dies(world, traces, clock, 1)
    assert traces.traceparent_of(second) != traces.traceparent_of(first)
    traces.finish_all()
    assert {trace.root.attributes["broker_ids"] for trace in failovers(tmp_path)} == {"1", "2"}


def test_a_broker_that_dies_while_another_is_drained_is_no_part_of_the_drain(
    world: World, traces: ControllerTraces, clock: HandClock, tmp_path: Path
) -> None:
    drained = traces.failovers.expect("controlled_shutdown", clock.wall_us())
    world.send(ev.ControlledShutdownRequested(1, 2, 102, drained))
    dies(world, traces, clock, 1)
    traces.finish_all()
    reasons = {
        trace.root.attributes["broker_ids"]: trace.root.attributes["reason"] for trace in failovers(tmp_path)
    }
    assert reasons == {"2": "controlled_shutdown", "1": "process_died"}


def test_what_the_second_broker_led_is_decided_with_the_cause_of_the_first(
    world: World, traces: ControllerTraces, clock: HandClock
) -> None:
    """Why one trace: the core goes on from the multi that was under way, and the second cause has no more."""
    world.stores.clear()
    world.told.clear()
    first = dies(world, traces, clock, 2)
    dies(world, traces, clock, 1)
    world.settle()
    assert {state.leader for state in world.zookeeper.values()} == {3}
    assert {store.cause for store in world.stores} == {first}
    assert {told.cause for told in world.told} == {first}
