"""The grid shows every partition, and costs what has changed."""

import json

from hightide import ReplicaListing, TopicPartition
from hightide_console.grid_keeper import GridKeeper
from hightide_console.views.grid import (
    CellState,
    Grid,
    change_document,
    next_grid,
    replica_lags,
    state_of,
    whole_document,
)
from unit.console.canned_cluster import REPLICAS, partition, replica, survey, topic

NOTHING = ReplicaListing(())


def states(grid: Grid, name: str) -> list[CellState]:
    return [grid.kinds[each].state for each in grid.rows[name].cells]


def test_a_cell_has_the_worst_state_that_holds() -> None:
    assert state_of(partition(0)) is CellState.OK
    assert state_of(partition(0, isr=(1, 2))) is CellState.UNDER_REPLICATED
    assert state_of(partition(0, isr=(1,)), 2) is CellState.UNDER_MIN_ISR
    assert state_of(partition(0, leader=None, isr=(1,)), 2) is CellState.OFFLINE
    assert state_of(partition(0, replicas=(1, 2, 3, 4)), is_moving=True) is CellState.MOVING


def test_a_topic_of_one_replica_is_not_below_a_larger_min_isr() -> None:
    assert state_of(partition(0, isr=(1,), replicas=(1,)), 2) is CellState.OK


def test_the_setting_of_the_topic_says_how_many_must_be_in_sync() -> None:
    parts = partition(0, isr=(1,)), partition(1)
    strict = topic("strict", *parts, min_insync_replicas="2")
    odd = topic("odd", *parts, min_insync_replicas="many")
    grid = next_grid(Grid(), [strict, odd], NOTHING)
    assert states(grid, "strict") == [CellState.UNDER_MIN_ISR, CellState.OK]
    assert states(grid, "odd") == [CellState.UNDER_REPLICATED, CellState.OK]


def test_a_moving_partition_is_marked() -> None:
    moving = frozenset({TopicPartition("orders", 1)})
    grid = next_grid(Grid(), [topic("orders", partition(0), partition(1))], NOTHING, moving)
    assert states(grid, "orders") == [CellState.OK, CellState.MOVING]


def test_lag_is_what_the_last_follower_lacks_of_the_newest_leader() -> None:
    assert replica_lags(REPLICAS) == {"orders": {0: 20}}
    deposed = replica("orders", 0, 1, 900, leads=True, epoch=3)
    leader = replica("orders", 0, 2, 500, leads=True, epoch=4)
    assert replica_lags(ReplicaListing((deposed, leader, replica("orders", 0, 3, 499)))) == {"orders": {0: 1}}


def test_a_look_without_news_is_the_same_grid() -> None:
    topics = [topic("orders", partition(0), partition(1))]
    grid = next_grid(Grid(), topics, REPLICAS)
    assert next_grid(grid, [topic("orders", partition(0), partition(1))], REPLICAS) is grid


def test_a_change_carries_the_topics_that_changed_and_new_kinds_alone() -> None:
    before = next_grid(Grid(), [topic("a", partition(0)), topic("b", partition(0))], NOTHING)
    after = next_grid(before, [topic("a", partition(0)), topic("b", partition(0, isr=(1,)))], NOTHING)
    change = change_document(before, after)
    assert (change["after"], change["version"]) == (1, 2)
    assert change["rows"] == {"b": [(1,), {}]}
    assert [kind[0] for kind in change["kinds"]] == ["under-replicated"]
    assert "topics" not in change


def test_a_deleted_topic_leaves_the_grid() -> None:
    before = next_grid(Grid(), [topic("a", partition(0)), topic("b", partition(0))], NOTHING)
    after = next_grid(before, [topic("b", partition(0))], NOTHING)
    assert change_document(before, after)["topics"] == ["b"]


def test_ten_thousand_partitions_are_a_few_bytes_each() -> None:
    topics = [
        topic(f"t{number}", *(partition(each, leader=1 + each % 3) for each in range(100)))
        for number in range(100)
    ]
    grid = next_grid(Grid(), topics, NOTHING)
    assert len(grid.kinds) == 3
    assert len(json.dumps(whole_document(grid), separators=(",", ":"))) < 4 * 10_000


def test_a_window_gets_the_change_only_after_the_version_that_it_has() -> None:
    keeper = GridKeeper()
    keeper.take(survey(topic("orders", partition(0)), number=1))
    keeper.take(survey(topic("orders", partition(0, isr=(1,))), number=2))
    assert keeper.version == 2
    assert keeper.change_after(0) is None
    change = keeper.change_after(1)
    assert change is not None
    assert list(json.loads(change)["rows"]) == ["orders"]
    assert json.loads(keeper.whole())["version"] == 2
