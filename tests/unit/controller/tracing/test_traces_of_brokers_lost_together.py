"""Brokers that are lost before the leaders of the first one are stored: one failover, told as one trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hand_clock import HandClock
from hightide_controller.core import events as ev
from hightide_controller.core.effects import Change, SendLeaderAndIsr, StoreLeaderAndIsr
from hightide_controller.core.state.cluster_state import ClusterState, Role
from hightide_controller.core.values.partition import LeaderAndIsr, TopicPartition
from hightide_controller.tracing.traces import ControllerTraces
from hightide_local.traces import Trace, failovers
from hightide_runtime.telemetry import span_kinds
from hightide_runtime.telemetry.tracing import Telemetry
from unit.controller.controller_world import World, topic

LED = {1: TopicPartition("t", 1), 2: TopicPartition("t", 2)}
COMMITTED = ev.StoreCommitted.__name__


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def traces(tmp_path: Path, clock: HandClock) -> Iterator[ControllerTraces]:
    telemetry = Telemetry.set_up("controller", "1", directory=tmp_path)
    yield ControllerTraces("cluster", 1, telemetry, clock)
    telemetry.shut_down()


@pytest.fixture
def state() -> ClusterState:
    """Of an active controller; brokers 1 and 2 lead a partition each, and 3 follows."""
    active = ClusterState(1)
    active.role, active.controller_epoch = Role.ACTIVE, 3
    for broker_id, name in LED.items():
        active.brokers[broker_id] = ev.Broker(broker_id, 70 + broker_id, incarnation=4)
        active.led_by[broker_id] = active.in_sync_on[broker_id] = {name}
    return active


def dies(traces: ControllerTraces, state: ClusterState, clock: HandClock, broker_id: int) -> str:
    """Returns the cause."""
    cause = traces.failovers.expect("process_died", clock.wall_us() - 1_000)
    traces.before(state, ev.BrokerProcessDied(broker_id, 70 + broker_id, cause))
    return cause


def multi(store_id: int, cause: str, name: TopicPartition) -> StoreLeaderAndIsr:
    return StoreLeaderAndIsr(store_id, 0, (Change(name, 0, LeaderAndIsr(3, 1, (3,), 3, 1)),), cause)


def is_stored(traces: ControllerTraces, state: ClusterState, effect: StoreLeaderAndIsr) -> None:
    traces.multi_answered(effect, COMMITTED)
    traces.before(state, ev.StoreCommitted(effect.store_id))


def the_trace(directory: Path) -> Trace:
    (trace,) = failovers(directory)
    return trace


def test_a_broker_lost_while_leaders_are_stored_for_another_is_part_of_that_failover(
    traces: ControllerTraces, state: ClusterState, clock: HandClock, tmp_path: Path
) -> None:
    first = dies(traces, state, clock, 2)
    traces.multi_submitted(before := multi(1, first, LED[2]))
    clock.now_ms += 4
    second = dies(traces, state, clock, 1)
    traces.settle()
    clock.now_ms += 6
    is_stored(traces, state, before)
    traces.multi_submitted(after := multi(2, first, LED[1]))
    traces.settle()
    is_stored(traces, state, after)
    assert traces.traceparent_of(second) == traces.traceparent_of(first) != ""
    traces.informing(SendLeaderAndIsr(3, 73, 9, (), second))
    traces.acknowledged(3, 9)
    traces.settle()
    root = the_trace(tmp_path).root
    assert root.attributes["broker_ids"] == "2,1"
    assert root.attributes["partition_count"] == 2
    assert [span.start_us for span in the_trace(tmp_path).named(span_kinds.BROKER_DOWN)] == [
        999_999_000,
        1_000_003_000,
    ]


def test_a_broker_lost_after_the_leaders_are_stored_is_a_failover_of_its_own(
    traces: ControllerTraces, state: ClusterState, clock: HandClock, tmp_path: Path
) -> None:
    first = dies(traces, state, clock, 2)
    traces.multi_submitted(stored := multi(1, first, LED[2]))
    is_stored(traces, state, stored)
    traces.informing(SendLeaderAndIsr(3, 73, 9, (), first))
    traces.settle()
    second = dies(traces, state, clock, 1)
    assert traces.traceparent_of(second) != traces.traceparent_of(first)
    traces.finish_all()
    assert {trace.root.attributes["broker_ids"] for trace in failovers(tmp_path)} == {"1", "2"}


def test_a_broker_that_dies_while_another_is_drained_is_no_part_of_the_drain(
    traces: ControllerTraces, state: ClusterState, clock: HandClock, tmp_path: Path
) -> None:
    drained = traces.failovers.expect("controlled_shutdown", clock.wall_us())
    traces.before(state, ev.ControlledShutdownRequested(1, 2, 72, drained))
    traces.multi_submitted(multi(1, drained, LED[2]))
    dies(traces, state, clock, 1)
    traces.finish_all()
    reasons = {
        trace.root.attributes["broker_ids"]: trace.root.attributes["reason"] for trace in failovers(tmp_path)
    }
    assert reasons == {"2": "controlled_shutdown", "1": "process_died"}


def test_what_the_second_broker_led_is_decided_with_the_cause_of_the_first() -> None:
    """Why one trace: the core goes on from the multi that was under way, and the second cause has no more."""
    world = World.elected(1, 2, 3, topics=(topic((2, 1, 3), (1, 2, 3)),))
    world.stores.clear()
    world.told.clear()
    for broker_id, cause in ((2, "first"), (1, "second")):
        world.send(ev.BrokerProcessDied(broker_id, 100 + broker_id, cause))
    world.settle()
    assert {state.leader for state in world.zookeeper.values()} == {3}
    assert {store.cause for store in world.stores} == {"first"}
    assert {told.cause for told in world.told} == {"first"}
