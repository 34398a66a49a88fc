"""What a coordinator's traces of rebalances and takeovers cost, and that no two of them share an id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hand_clock import HandClock
from hightide_coordinator.core.events import Endpoint
from hightide_coordinator.core.machine import new_state
from hightide_coordinator.core.state.group import Group, GroupState
from hightide_coordinator.core.state.member import Member
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.limits import GroupLimits
from hightide_coordinator.tracing import rebalance_trace
from hightide_coordinator.tracing.shard_traces import ShardTraces
from hightide_coordinator.zookeeper.candidacy import ShardTakeover
from hightide_local.traces.span_files import read_spans
from hightide_runtime.telemetry.span_kinds import (
    COORDINATOR_FAILOVER,
    COORDINATOR_RECOVERY,
    GROUP_REBALANCE,
    REBALANCE_START,
)
from hightide_runtime.telemetry.tracing import Telemetry

BEFORE = Endpoint(6, "127.0.0.1", 9100)


class CountedGroups(dict[str, Group]):
    """Counts how often somebody asks for a group."""

    asked = 0

    def get(self, name: str, default: object = None) -> Group | None:  # type: ignore[override]
        self.asked += 1
        return super().get(name)


@pytest.fixture
def telemetry(tmp_path: Path) -> Iterator[Telemetry]:
    built = Telemetry.set_up("coordinator", "1", directory=tmp_path)
    yield built
    built.shut_down()


@pytest.fixture
def clock() -> HandClock:
    return HandClock(now_ms=1_000)


@pytest.fixture
def traces(telemetry: Telemetry, clock: HandClock) -> ShardTraces:
    return ShardTraces("cluster", 0, telemetry, clock)


def shard_of(count: int, state: GroupState) -> ShardState:
    shard = new_state(GroupLimits())
    shard.coordinator_epoch = 7
    shard.groups = CountedGroups((f"g{number}", Group(f"g{number}", state)) for number in range(count))
    return shard


def take_over(traces: ShardTraces, shard: ShardState) -> None:
    traces.taken_over(ShardTakeover("process_died", BEFORE, 100, 200, 300, 400), shard)


def about(shard: ShardState, *names: str) -> ShardState:
    """The shard after an event that was about these groups."""
    shard.looked_at = set(names)
    return shard


def test_an_event_costs_by_the_groups_that_it_is_about_and_not_by_the_rebalances_that_are_open(
    traces: ShardTraces,
) -> None:
    shard = shard_of(50, GroupState.REBALANCING)
    for group in shard.groups.values():
        traces.begun(group)
    assert isinstance(shard.groups, CountedGroups)
    for _ in range(20):
        traces.settle(about(shard))
    assert shard.groups.asked == 0
    traces.settle(about(shard, "g7", "g9"))
    assert shard.groups.asked == 2


def test_the_steps_of_the_group_that_an_event_is_about_end_with_it(
    traces: ShardTraces, clock: HandClock, tmp_path: Path
) -> None:
    shard = shard_of(2, GroupState.REBALANCING)
    for group in shard.groups.values():
        group.open_orders = {"m1": Member(group.name, "m1", "c1", "", 1_000, None, 0)}
        traces.begun(group)
        traces.rebalances.starting(group.name)
    shard.groups["g0"].open_orders = {}
    clock.now_us = 1_000_300
    traces.settle(about(shard, "g0"))
    clock.now_us = 1_000_900
    traces.resigned()
    starts = [span for span in read_spans(tmp_path) if span.name == REBALANCE_START]
    assert sorted(span.duration_us for span in starts) == [300, 900]


def test_a_rebalance_without_partitions_names_none(traces: ShardTraces, tmp_path: Path) -> None:
    traces.begun(shard_of(1, GroupState.REBALANCING).groups["g0"])
    traces.resigned()
    (span,) = [span for span in read_spans(tmp_path) if span.name == GROUP_REBALANCE]
    assert span.attributes["partition_count"] == 0
    assert "partition_sample" not in span.attributes


def test_so_many_rebalances_are_open_at_most(traces: ShardTraces, tmp_path: Path) -> None:
    shard = shard_of(3 * rebalance_trace.OPEN_MAX, GroupState.REBALANCING)
    for group in shard.groups.values():
        traces.begun(group)
    traces.resigned()
    assert rebalance_trace.OPEN_MAX == 100
    spans = [span for span in read_spans(tmp_path) if span.name == GROUP_REBALANCE]
    assert len(spans) == rebalance_trace.OPEN_MAX


def test_a_group_that_is_deleted_and_made_again_has_a_trace_of_its_own(
    traces: ShardTraces, tmp_path: Path
) -> None:
    for _ in range(2):
        group = Group("g", GroupState.REBALANCING, generation=1)
        traces.begun(group)
        group.become(GroupState.STABLE)
        traces.rebalanced(group)
    spans = [span for span in read_spans(tmp_path) if span.name == GROUP_REBALANCE]
    assert len({span.trace_id for span in spans}) == len({span.span_id for span in spans}) == 2


def test_a_takeover_ends_with_the_last_rebalance_that_it_caused(traces: ShardTraces, tmp_path: Path) -> None:
    shard = shard_of(3, GroupState.RECOVERING)
    take_over(traces, shard)
    groups = list(shard.groups.values())
    for group in groups[:2]:
        group.become(GroupState.GATHERING)
        group.become(GroupState.REBALANCING)
        traces.begun(group)
        traces.settle(about(shard, group.name))
    groups[2].become(GroupState.GATHERING)
    traces.settle(about(shard, "g2"))
    assert ended(tmp_path, COORDINATOR_RECOVERY) == 1
    for group, are_ended in zip(groups[:2], (0, 1), strict=True):
        group.become(GroupState.STABLE)
        traces.rebalanced(group)
        traces.settle(about(shard, group.name))
        assert ended(tmp_path, COORDINATOR_FAILOVER) == are_ended
    (root,) = [span for span in read_spans(tmp_path) if span.name == COORDINATOR_FAILOVER]
    rebalances = [span for span in read_spans(tmp_path) if span.name == GROUP_REBALANCE]
    assert [span.parent_id for span in rebalances] == [root.span_id] * 2


def ended(directory: Path, name: str) -> int:
    return sum(span.name == name for span in read_spans(directory))
