"""§9: partitions are shared out, stop, are written down and start (C4, C6, C7, C11)."""

from __future__ import annotations

import pytest
from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.state.group import GroupState
from hightide_coordinator.core.values.limits import GroupLimits
from hightide_coordinator.core.values.registration import OffsetReset, StoredOffset
from sim.known_wrong import without
from unit.coordinator.core.group_world import World, topic, tp


def test_a_lone_consumer_is_given_everything() -> None:
    world = World()
    consumer = world.join()
    world.run(100)
    assert consumer.partitions == {0, 1, 2, 3}
    assert world.group_state() is GroupState.STABLE
    assert world.describe().generation == 1


def joined_by_a_third() -> tuple[World, list[int], int]:
    world = World(topic(partitions=12))
    first, second = world.join("a"), world.join("b")
    world.run(100)
    third = world.join("c")
    world.run(100)
    members = (first, second, third)
    assert sorted(number for each in members for number in each.partitions) == list(range(12))
    stopped = [each.name for order in world.all(ef.SendStopFetcher) for each in order.partitions]
    return world, [len(each.partitions) for each in members], len(stopped)


def test_a_member_that_joins_disturbs_only_the_partitions_that_move() -> None:
    world, shares, stopped = joined_by_a_third()
    assert shares == [4, 4, 4]
    assert stopped == 4
    assert world.describe().generation == 2


def test_without_c7_a_member_that_joins_stops_everyone() -> None:
    with without("only_moved_stop"):
        _, shares, stopped = joined_by_a_third()
    assert shares == [4, 4, 4]
    assert stopped > 12


def test_a_hundred_joins_are_not_a_hundred_rebalances() -> None:
    world = World(topic(partitions=200))
    consumers = []
    for _ in range(100):
        consumers.append(world.join())
        world.run(20)
    world.run(100)
    assert world.describe().rebalance_count == 1
    assert {len(each.partitions) for each in consumers} == {2}


def test_a_join_window_ends_though_ever_more_members_come() -> None:
    world = World(topic(partitions=200))
    first = world.join()
    for _ in range(40):
        world.run(90)
        world.join()
    assert first.partitions


def test_a_member_that_no_rebalance_touches_hears_nothing_and_goes_on_committing() -> None:
    world = World(topic(partitions=2))
    first, second = world.join("a"), world.join("b")
    world.run(100)
    orders = (len(first.orders), len(second.orders))
    third = world.join("c")
    world.run(100)
    assert (len(first.orders), len(second.orders)) == orders
    assert third.partitions == set()
    assert first.commit(next(iter(first.reading)), 5).refusal is None


def test_nobody_starts_what_another_one_still_reads() -> None:
    world = World(topic(partitions=2))
    first = world.join("a")
    world.run(100)
    first.is_mute = True
    second = world.join("b")
    world.run(100)
    (stop,) = first.open_orders
    assert isinstance(stop, ef.SendStopFetcher)
    assert second.orders == []
    first.answer()
    assert second.partitions == {each.name.partition for each in stop.partitions}


def test_owners_and_start_offsets_are_durable_before_anybody_starts() -> None:
    world = World()
    world.stores_answer = False
    consumer = world.join()
    world.run(1_000)
    (store,) = world.stores
    assert set(store.owners) == set(store.offsets) == {tp(number) for number in range(4)}
    assert consumer.orders == []
    world.store()
    assert consumer.partitions == {0, 1, 2, 3}


def test_without_c4_members_start_what_no_store_confirms() -> None:
    world = World()
    world.stores_answer = False
    with without("owners_before_start"):
        consumer = world.join()
        world.run(1_000)
    assert consumer.partitions == {0, 1, 2, 3}
    assert world.owners == {}


def test_the_next_owner_starts_where_the_last_one_stopped() -> None:
    world = World(topic(partitions=2))
    first = world.join("a")
    world.run(100)
    first.positions = {tp(0): 10, tp(1): 11}
    second = world.join("b")
    world.run(100)
    (start,) = second.reading.values()
    assert isinstance(start, ef.StartPartition)
    assert start.offset == 10 + start.name.partition
    assert world.committed(start.name.partition) == start.offset


def test_a_partition_that_nobody_committed_starts_where_the_consumer_wants() -> None:
    world = World(topic(partitions=1))
    world.ends[tp(0)] = 77
    consumer = world.join(offset_reset=OffsetReset.LARGEST)
    world.run(100)
    assert consumer.positions == {tp(0): 77}
    assert world.committed(0) == 77, "so that one that takes over from a dead one skips nothing"


def test_a_consumer_that_wants_an_error_is_told_that_there_is_no_offset() -> None:
    world = World(topic(partitions=1))
    consumer = world.join(offset_reset=OffsetReset.ERROR)
    world.run(100)
    (start,) = consumer.reading.values()
    assert isinstance(start, ef.StartPartition)
    assert start.offset == -1
    assert world.look_ups == []


def test_what_cannot_start_holds_up_nothing_else() -> None:
    world = World(topic(partitions=2))
    world.look_ups_answer = False
    consumer = world.join()
    world.run(100)
    (look_up,) = world.look_ups
    id_of = world.topics["t"].topic_id
    found = StoredOffset(3, -1, id_of)
    world.feed(ev.OffsetsLookedUp(look_up.look_up_id, {tp(0): found}, {tp(1): "leader 7 is away"}))
    assert consumer.partitions == {0}
    assert "leader 7 is away" in world.describe().reason
    world.look_ups_answer = True
    world.run(500)
    assert consumer.partitions == {0, 1}
    assert world.group_state() is GroupState.STABLE


def test_an_answer_about_a_group_that_is_forgotten_meanwhile_changes_nothing() -> None:
    world = World()
    world.look_ups_answer = False
    world.join("a").is_mute = True
    world.run(100)
    next(iter(world.consumers.values())).leave()
    assert world.state.groups == {}
    second = world.join("b")
    world.look_up()
    assert second.orders == []
    world.look_ups_answer = True
    world.run(200)
    assert second.partitions == {0, 1, 2, 3}


def changed_during_a_rebalance() -> World:
    world = World(topic(partitions=4))
    world.stores_answer = False
    world.join("a")
    world.run(200)
    assert world.group_state() is GroupState.REBALANCING
    world.join("b")
    world.stores_answer = True
    world.store()
    world.run(1_000)
    return world


def test_a_change_during_a_rebalance_is_followed_by_another() -> None:
    world = changed_during_a_rebalance()
    assert {world.owner_of(number) for number in range(4)} == {"a", "b"}


def test_without_c6_a_change_during_a_rebalance_is_lost() -> None:
    with without("changes_rerun"):
        world = changed_during_a_rebalance()
    assert {world.owner_of(number) for number in range(4)} == {"a"}


def test_a_rebalance_that_changes_nothing_is_none() -> None:
    world = World(topic(partitions=1))
    first = world.join("a")
    world.run(100)
    world.join("b")
    world.run(100)
    assert world.group_state() is GroupState.STABLE
    assert world.describe().generation == 1
    assert len(first.orders) == 1


def test_a_late_answer_to_an_expired_order_changes_nothing() -> None:
    world = World(topic(partitions=2), limits=GroupLimits(ping_retries_max=1))
    first = world.join("a")
    world.run(100)
    second = world.join("b")
    first.is_mute = True
    world.run(100)
    (expired,) = first.open_orders
    for _ in range(2):
        world.run(3_700)
        first.answer_ping()
    stop = first.open_orders[-1]
    assert stop is not expired
    first.answer(expired)
    assert second.orders == [], "C1: only the answer to the order that is open counts"
    first.answer(stop)
    assert len(second.partitions) == 1


def test_without_c1_a_late_answer_completes_the_next_attempt() -> None:
    limits = GroupLimits(ping_retries_max=1)
    world = World(topic(partitions=2), limits=limits)
    first = world.join("a")
    world.run(100)
    second = world.join("b")
    first.is_mute = True
    world.run(100)
    (expired,) = first.open_orders
    for _ in range(2):
        world.run(3_700)
        first.answer_ping()
    with without("answers_matched"):
        first.answer(expired)
    assert second.orders, "though nobody answered the order that is open"


def test_a_group_that_fails_too_often_says_so_and_goes_on_trying() -> None:
    world = World(topic(partitions=1), limits=GroupLimits(rebalance_retries_max=1))
    world.look_ups_answer = False
    consumer = world.join(session_timeout_ms=60_000)
    for _ in range(2):
        world.run(600)
        failed = {tp(0): "leader 7 is away"}
        world.feed(ev.OffsetsLookedUp(world.look_ups[-1].look_up_id, {}, failed))
    assert world.group_state() is GroupState.FAILED
    assert "leader 7 is away" in world.describe().reason
    assert [each for each in world.all(ef.LogSentence) if each.is_warning]
    world.look_ups_answer = True
    world.run(10_000)
    assert world.group_state() is GroupState.STABLE
    assert consumer.partitions == {0}


def test_a_failed_group_is_tried_again_at_once_when_it_changes() -> None:
    world = World(topic(partitions=2), limits=GroupLimits(rebalance_retries_max=0))
    world.look_ups_answer = False
    world.join(session_timeout_ms=60_000)
    world.run(100)
    world.feed(ev.OffsetsLookedUp(world.look_ups[-1].look_up_id, {}, {tp(0): "away", tp(1): "away"}))
    assert world.group_state() is GroupState.FAILED
    world.look_ups_answer = True
    world.join(session_timeout_ms=60_000)
    world.run(100)
    assert world.group_state() is GroupState.STABLE


@pytest.mark.parametrize("event", [ev.StoreRefused, ev.StoreUnknown])
@pytest.mark.parametrize("is_written", [False, True])
def test_a_store_that_failed_is_read_again_and_what_it_wanted_is_done(
    event: type[ev.StoreRefused] | type[ev.StoreUnknown], is_written: bool
) -> None:
    world = World(topic(partitions=3))
    world.stores_answer = False
    consumer = world.join()
    world.run(100)
    (store,) = world.stores
    if is_written:
        world.write(store)
    world.feed(event(store.store_id))
    assert consumer.orders == []
    world.stores_answer = True
    world.read()
    world.run(2_000)
    assert consumer.partitions == {0, 1, 2}
    assert world.group_state() is GroupState.STABLE


def test_nobody_starts_anything_while_it_is_read_again_whose_it_is() -> None:
    world = World()
    first = world.join("a")
    world.run(100)
    world.stores_answer = False
    second = world.join("b")
    world.run(100)
    store = world.stores[-1]
    assert {owner and owner.consumer_id for owner in store.owners.values()} == {"b"}
    world.write(store)
    world.feed(ev.StoreUnknown(store.store_id))
    second.leave()
    world.run(200)
    assert len(first.partitions) == 2, "by the word of ZooKeeper the others may be another's"
    world.stores_answer = True
    world.read()
    world.run(1_000)
    assert first.partitions == {0, 1, 2, 3}
    assert {world.owner_of(number) for number in range(4)} == {"a"}


def test_what_an_operator_took_away_is_stopped_and_given_out_again() -> None:
    world = World(topic(partitions=1))
    consumer = world.join()
    world.run(100)
    given = world.owners["g"].pop(tp(0))
    consumer.positions[tp(0)] = 9
    world.run(4_000)
    consumer.answer_ping(tp(0))
    world.stores_answer = False
    world.run(6_000)
    world.feed(ev.StoreRefused(world.stores[-1].store_id))
    world.stores_answer = True
    world.read()
    world.run(3_000)
    assert consumer.partitions == {0}
    assert world.owners["g"][tp(0)].generation > given.generation
    assert world.committed() == 9


def test_a_coordinator_that_is_fenced_resigns_and_says_nothing_more() -> None:
    world = World()
    world.stores_answer = False
    consumer = world.join()
    world.run(100)
    world.feed(ev.StoreFenced(world.stores[-1].store_id))
    assert world.all(ef.Resign)
    world.run(60_000)
    assert consumer.orders == []
    assert consumer.pings == []


def test_streams_of_one_consumer_share_its_partitions() -> None:
    world = World(topic(partitions=4))
    first = world.join("a", topics={"t": 3})
    second = world.join("b", topics={"t": 1})
    world.run(100)
    streams = [start.stream for start in first.reading.values() if isinstance(start, ef.StartPartition)]
    assert sorted(streams) == [0, 1, 2]
    assert len(second.partitions) == 1


def test_a_partition_that_changes_streams_of_one_consumer_is_stopped_in_between() -> None:
    world = World(topic(partitions=2))
    consumer = world.join("a", topics={"t": 1}, assignor="range")
    world.run(100)
    again = world.come_back(consumer, topics={"t": 2})
    world.run(100)
    assert again.partitions == {0, 1}
    assert {owner.stream for owner in world.owners["g"].values()} == {0, 1}


def test_the_assignor_is_what_most_members_name() -> None:
    world = World()
    for assignor in ("range", "roundrobin", "range"):
        world.join(assignor=assignor)
    world.run(100)
    assert world.describe().assignor == "range"


def test_the_stop_answers_of_a_rebalance_melt_into_few_stores() -> None:
    world = World(topic(partitions=100))
    first = [world.join(f"a{number}") for number in range(20)]
    world.run(100)
    before = len(world.stores)
    for each in first:
        each.is_mute = True
    for number in range(20):
        world.join(f"b{number}")
    world.run(100)
    for each in first:
        each.answer()
        world.run(1)
    assert len(world.stores) - before <= 2
    assert world.group_state() is GroupState.STABLE
    assert {len(each.partitions) for each in world.consumers.values()} <= {2, 3}
