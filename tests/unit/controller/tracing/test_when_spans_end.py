"""What ZooKeeper and brokers have done is done when they say so, however long that waits for the core."""

from __future__ import annotations

from pathlib import Path

from hand_clock import HandClock
from hightide_controller.core import events as ev
from hightide_controller.tracing.traces import ControllerTraces
from hightide_local.traces.span_files import read_spans
from hightide_runtime.telemetry.span_kinds import FAILOVER, ZOOKEEPER_MULTI
from hightide_runtime.telemetry.tracing import Telemetry
from unit.controller.tracing.traced_world import traced_world


def test_a_write_ends_when_its_fate_comes_and_a_failover_when_the_last_broker_says_so(tmp_path: Path) -> None:
    telemetry, clock = Telemetry.set_up("controller", "1", directory=tmp_path), HandClock()
    traces = ControllerTraces("cluster", 1, telemetry, clock)
    world = traced_world(traces, clock, (1, 2))
    died_us = clock.now_us
    world.send(ev.BrokerProcessDied(1, 101, traces.failovers.expect("process_died", died_us)))
    (store,) = world.stores[-1:]
    assert world.try_apply(store)
    clock.now_us = died_us + 900_000
    _, effects = traces.record(world.state, ev.StoreCommitted(store.store_id), died_us + 30_000)
    assert list(effects)
    clock.now_us = died_us + 2_000_000
    told = ev.BrokerAcknowledged(2, 102, world.state.next_sequence - 1)
    assert list(traces.record(world.state, told, died_us + 950_000)[1]) == []
    telemetry.shut_down()
    ends_us = {span.name: span.end_us - died_us for span in read_spans(tmp_path)}
    assert (ends_us[ZOOKEEPER_MULTI], ends_us[FAILOVER]) == (30_000, 950_000)
