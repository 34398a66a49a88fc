"""§7, §9: where a partition starts of which the group has committed nothing."""

from __future__ import annotations

from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.values.registration import OffsetReset, StoredOffset
from unit.coordinator.core.group_world import World, topic, tp

OTHER = b"o" * 16
LARGEST, SMALLEST = OffsetReset.LARGEST, OffsetReset.SMALLEST


def test_a_start_that_was_looked_up_for_another_reset_does_not_count_for_the_next_heir() -> None:
    world = World(topic(partitions=1))
    world.look_ups_answer = False
    first = world.join("a", offset_reset=LARGEST)
    world.run(100)
    world.stores_answer = False
    second = world.join("b", offset_reset=SMALLEST)
    first.leave()
    world.look_up()
    world.look_ups_answer = world.stores_answer = True
    if world.state.stores:
        world.store()
    world.run(1_000)
    assert second.positions == {tp(0): 0}


def test_a_start_that_waits_to_be_written_down_is_sought_anew_when_its_heir_changes_its_mind() -> None:
    world = World(topic(partitions=1))
    other = world.join("z", topics={"u": 1})
    world.change_topics(topic("u", 1, OTHER))
    world.run(1_000)
    world.stores_answer = False
    generation = other.reading[tp(0, "u")].generation
    commits = (ev.OffsetCommit(tp(0, "u"), generation, 5),)
    world.feed(ev.CommitRequested(90, "g", other.member_id, commits))
    first = world.join("a", offset_reset=LARGEST)
    world.run(200)
    assert tp(0) in world.state.groups["g"].found
    second = world.come_back(first, offset_reset=SMALLEST)
    world.stores_answer = True
    world.store()
    world.run(1_000)
    assert second.positions == {tp(0): 0}


def test_a_partition_that_was_added_is_read_from_its_first_record_also_by_who_starts_at_the_end() -> None:
    world = World(topic(partitions=2))
    consumer = world.join(offset_reset=LARGEST)
    world.run(100)
    assert consumer.positions == {tp(0): 100, tp(1): 100}
    world.change_topics(topic(partitions=4))
    world.run(100)
    assert consumer.positions == {tp(0): 100, tp(1): 100, tp(2): 0, tp(3): 0}


def test_a_partition_that_was_added_while_nobody_read_is_read_from_its_first_record() -> None:
    world = World(topic(partitions=1))
    world.commit(ev.OffsetCommit(tp(0), 0, 5))
    world.change_topics(topic(partitions=2))
    consumer = world.join(offset_reset=LARGEST)
    world.run(100)
    assert consumer.positions == {tp(0): 5, tp(1): 0}


def test_a_topic_that_is_new_to_a_group_starts_at_its_end_where_that_is_requested() -> None:
    world = World(topic(partitions=2), topic("u", 2, OTHER))
    world.join("a", offset_reset=LARGEST)
    world.run(100)
    consumer = world.join("b", topics={"u": 1}, offset_reset=LARGEST)
    world.run(200)
    assert consumer.positions == {tp(0, "u"): 100, tp(1, "u"): 100}


def test_a_partition_whose_end_is_found_late_is_no_new_one() -> None:
    world = World(topic(partitions=2))
    world.look_ups_answer = False
    consumer = world.join(offset_reset=LARGEST)
    world.run(100)
    found = {tp(0): StoredOffset(100, -1, b"i" * 16)}
    world.feed(ev.OffsetsLookedUp(world.look_ups[-1].look_up_id, found, {tp(1): "it has no leader"}))
    world.run(200)
    assert consumer.positions == {tp(0): 100}
    world.look_ups_answer = True
    world.run(5_000)
    assert consumer.positions == {tp(0): 100, tp(1): 100}


def test_a_partition_that_was_added_while_the_first_ones_wait_is_new() -> None:
    world = World(topic(partitions=1))
    world.look_ups_answer = False
    consumer = world.join(offset_reset=LARGEST)
    world.run(100)
    world.change_topics(topic(partitions=2))
    world.look_ups_answer = True
    world.look_up()
    world.run(500)
    assert consumer.positions == {tp(0): 100, tp(1): 0}


def test_who_wants_to_be_told_that_nothing_is_committed_is_told_so_of_a_new_partition_too() -> None:
    world = World(topic(partitions=1))
    world.commit(ev.OffsetCommit(tp(0), 0, 5))
    world.change_topics(topic(partitions=2))
    consumer = world.join(offset_reset=OffsetReset.ERROR)
    world.run(100)
    start = consumer.reading[tp(1)]
    assert isinstance(start, ef.StartPartition)
    assert start.offset == -1
