"""Moves as traces: each step ends when its facts are there, whatever else moves, and nothing is left open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import pytest
from hightide_controller.core import events as ev
from hightide_controller.core.effects import SendLeaderAndIsr, SendStopReplica
from hightide_controller.core.state.cluster_state import ClusterState, Role
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.core.writes import ReassignmentDone, ReassignmentWrite, StoreWrites
from hightide_controller.tracing.move_traces import MoveTraces
from hightide_local.traces.span_files import SpanRecord, read_spans
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry.span_kinds import MOVE_STOP, REASSIGNMENT
from hightide_runtime.telemetry.tracing import Telemetry

EPOCH = 50
MOVING = [TopicPartition("t", number) for number in range(3)]


@pytest.fixture
def telemetry(tmp_path: Path) -> Iterator[Telemetry]:
    built = Telemetry.set_up("controller", "1", directory=tmp_path)
    yield built
    built.shut_down()


@pytest.fixture
def traces(telemetry: Telemetry) -> MoveTraces:
    built = MoveTraces("cluster", telemetry, SystemClock())
    elect(built)
    return built


def elect(traces: MoveTraces) -> None:
    campaigning = ClusterState(1)
    campaigning.role = Role.CAMPAIGNING
    traces.before(campaigning, ev.Elected(7, 7, ev.ClusterSnapshot((), (), {})))


def begin(traces: MoveTraces, store_id: int, *names: TopicPartition) -> StoreWrites:
    """One request begins to move these."""
    writes = tuple(ReassignmentWrite(name, (3, 4), (1, 2), 0) for name in names)
    traces.requested("asked")
    effect = traces.marked(StoreWrites(store_id, 7, writes, "asked"))
    traces.answered("asked")
    return effect


def commit(traces: MoveTraces, effect: StoreWrites) -> None:
    """ZooKeeper has written it, and the core takes that."""
    traces.stored(effect.store_id, 2_000_000, is_committed=True)


def switch(traces: MoveTraces, store_id: int, name: TopicPartition, **told: int) -> None:
    """ZooKeeper names the new replicas alone; brokers are told, by these sequences."""
    effect = traces.marked(StoreWrites(store_id, 7, (ReassignmentDone(name, 1),)))
    commit(traces, effect)
    for broker, sequence in told.items():
        traces.sends(SendLeaderAndIsr(int(broker.removeprefix("broker_")), EPOCH, sequence, ()))
    settle(traces)


def settle(traces: MoveTraces, *gone: int) -> None:
    """A step of the core is over, and these brokers are not live any more."""
    traces.settle(lambda life: life[0] not in gone)


def spans(directory: Path, name: str) -> list[SpanRecord]:
    return [span for span in read_spans(directory) if span.name == name]


def stopped(directory: Path) -> list[object]:
    return [span.attributes["partition"] for span in spans(directory, MOVE_STOP)]


def test_a_move_ends_when_all_that_were_told_have_acknowledged(traces: MoveTraces, tmp_path: Path) -> None:
    commit(traces, begin(traces, 1, *MOVING))
    settle(traces)
    switch(traces, 2, MOVING[0], broker_3=10, broker_4=20)
    switch(traces, 3, MOVING[1], broker_3=11, broker_4=21)
    traces.acknowledged((3, EPOCH), 10)
    traces.acknowledged((4, EPOCH), 19)
    settle(traces)
    assert stopped(tmp_path) == []
    traces.acknowledged((4, EPOCH), 20)
    settle(traces)
    assert stopped(tmp_path) == ["t-0"]
    traces.acknowledged((4, EPOCH), 30)
    settle(traces, 3)
    assert stopped(tmp_path) == ["t-0", "t-1"]
    switch(traces, 4, MOVING[2])
    assert stopped(tmp_path) == ["t-0", "t-1", "t-2"]
    assert len(spans(tmp_path, REASSIGNMENT)) == 1


def test_what_follows_from_the_last_write_is_told_under_the_trace_of_the_move(
    traces: MoveTraces, tmp_path: Path
) -> None:
    commit(traces, begin(traces, 1, MOVING[0]))
    assert traces.sends(SendLeaderAndIsr(3, EPOCH, 9, ())) == ""
    settle(traces)
    commit(traces, traces.marked(StoreWrites(2, 7, (ReassignmentDone(MOVING[0], 1),))))
    cause = traces.sends(SendStopReplica(1, 40, 10, ()))
    settle(traces)
    traces.acknowledged((1, 40), 10)
    settle(traces)
    (root,) = spans(tmp_path, REASSIGNMENT)
    assert traces.traceparent_of(cause).split("-")[1:3] == [root.trace_id, root.span_id]


def test_what_one_that_is_told_again_has_acknowledged_before_does_not_count(
    traces: MoveTraces, tmp_path: Path
) -> None:
    commit(traces, begin(traces, 1, *MOVING))
    switch(traces, 2, MOVING[0], broker_3=10)
    commit(traces, begin(traces, 3, MOVING[0]))
    switch(traces, 4, MOVING[0], broker_3=12)
    traces.acknowledged((3, EPOCH), 11)
    settle(traces)
    before = len(stopped(tmp_path))
    traces.acknowledged((3, EPOCH), 12)
    settle(traces)
    assert len(stopped(tmp_path)) == before + 1


def test_an_event_costs_the_same_however_many_partitions_move(telemetry: Telemetry) -> None:
    def least_s(count: int) -> float:
        traces = MoveTraces("cluster", telemetry, SystemClock())
        elect(traces)
        names = [TopicPartition("t", number) for number in range(count)]
        commit(traces, begin(traces, 1, *names))
        took_s = []
        for sequence in range(200):
            began_s = perf_counter()
            traces.stored(1_000 + sequence, 0, is_committed=True)
            traces.acknowledged((3, EPOCH), sequence)
            settle(traces)
            took_s.append(perf_counter() - began_s)
        return min(took_s)

    assert least_s(2_000) < 10 * least_s(2)


def test_a_write_of_a_controller_that_is_not_active_opens_no_trace(
    traces: MoveTraces, tmp_path: Path
) -> None:
    traces.finish_all()
    effect = begin(traces, 1, *MOVING)
    assert [write.traceparent for write in effect.writes if isinstance(write, ReassignmentWrite)] == [""] * 3
    elect(traces)
    effect = begin(traces, 1, *MOVING)
    assert all(write.traceparent for write in effect.writes if isinstance(write, ReassignmentWrite))
    traces.finish_all()
    assert len(spans(tmp_path, REASSIGNMENT)) == 1
