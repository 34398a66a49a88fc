"""What the simulation of tests/sim/groups has found: two things that happen at once, and what broke."""

from __future__ import annotations

import pytest
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.machine import next_deadline_ms
from hightide_coordinator.core.values.limits import GroupLimits
from hightide_coordinator.core.values.registration import (
    OffsetReset,
    PartitionOwner,
    StoredGroup,
    StoredOffset,
)
from hightide_coordinator.core.values.topic_partition import Topic
from unit.coordinator.core.group_world import World, topic, tp

ID = b"i" * 16
OTHER_ID = b"j" * 16


def test_what_is_being_given_away_when_its_topic_goes_is_started_by_nobody() -> None:
    world = World()
    world.stores_answer = False
    consumer = world.join("a", offset_reset=OffsetReset.ERROR)
    world.run(200)
    world.change_topics(gone=("t",))
    world.stores_answer = True
    world.store()
    world.run(1_000)
    assert consumer.orders == []
    assert world.owners["g"] == {}


def test_where_a_partition_starts_is_not_asked_again_and_again_when_its_topic_is_gone() -> None:
    world = World()
    world.look_ups_answer = False
    world.join("a")
    world.run(200)
    world.change_topics(gone=("t",))
    world.look_up()
    world.run(5_000)
    assert len(world.look_ups) == 1


def test_an_owner_does_not_outlive_its_topic_though_no_offset_tells_which_it_was() -> None:
    owner = PartitionOwner("m", "c", "", 0, 3, topic_id=OTHER_ID)
    world = World(topic(), groups={"g": StoredGroup(3, 3_000, {tp(0): owner})})
    assert world.owners["g"] == {}


def test_a_position_in_a_deleted_topic_is_not_written_down_for_its_namesake() -> None:
    """The write that deletes owners and offsets is cut off between the two: offsets come first."""
    world = World(topic(partitions=1))
    consumer = world.join("a")
    world.run(200)
    consumer.is_mute = True
    consumer.positions[tp(0)] = 50
    world.stores_answer = False
    world.change_topics(topic(partitions=1, topic_id=OTHER_ID))
    world.offsets["g"].clear()
    world.feed(ev.StoreUnknown(world.stores[-1].store_id))
    world.stores_answer = True
    world.read()
    consumer.answer()
    consumer.is_mute = False
    world.run(10_000)
    assert world.committed(0) == 0
    assert consumer.partitions == {0}


def test_a_position_that_a_cut_off_write_has_written_is_not_written_again() -> None:
    world = World()
    consumer = world.join("a")
    world.run(200)
    world.stores_answer = False
    consumer.positions[tp(0)] = 5
    world.run(3_400)
    consumer.answer_ping(tp(0))
    world.run(5_000)
    world.write(world.stores[-1])
    count = len(world.stores)
    world.stores_answer = True
    world.feed(ev.StoreUnknown(world.stores[-1].store_id))
    world.run(12_000)
    assert (world.committed(0), len(world.stores)) == (5, count)


def test_a_write_that_fails_while_a_group_recovers_does_not_keep_the_coordinator_busy() -> None:
    world = World(topic(), topic("u"))
    consumer = world.join("a", topics={"t": 1, "u": 1})
    world.run(200)
    assert consumer.reading
    after = world.fail_over()
    after.stores_answer = False
    after.feed(ev.Deposed())
    del after.topics["u"]
    after.elect()
    after.feed(ev.StoreUnknown(after.stores[-1].store_id))
    after.read()
    after.now_ms += 5_000
    for _ in range(20):
        after.feed(ev.Ticked())
    due_ms = next_deadline_ms(after.state)
    assert due_ms is None or due_ms > after.now_ms


def test_a_commit_lower_than_what_its_consumer_has_told_is_durable_when_it_is_answered() -> None:
    world = World()
    consumer = world.join("a")
    world.run(3_500)
    consumer.positions[tp(0)] = 7
    consumer.answer_ping(tp(0))
    assert consumer.commit(tp(0), 6).refusal is None
    assert world.committed(0) == 7


def test_an_instance_that_is_replaced_while_its_topic_is_created_anew_is_given_the_new_one() -> None:
    world = World()
    old = world.join("", instance_id="i")
    world.run(200)
    old.is_mute = True
    world.change_topics(topic(topic_id=OTHER_ID))
    world.run(200)
    new = world.join("", instance_id="i")
    world.run(1_000)
    assert new.partitions == {0, 1, 2, 3}


def test_an_offset_that_was_committed_before_its_partition_was_known_to_be_a_new_one_stays() -> None:
    world = World()
    consumer = world.join("a")
    world.run(200)
    commit = ev.OffsetCommit(tp(3), consumer.reading[tp(3)].generation, 5, leader_epoch=9)
    world.commit(commit, member_id=consumer.member_id)
    world.change_topics(Topic("t", ID, 4, {3: 8}))
    world.run(1_000)
    assert world.offsets["g"][tp(3)] == StoredOffset(5, 9, ID)
    assert consumer.partitions == {0, 1, 2, 3}


def test_no_two_members_are_given_a_partition_in_one_generation() -> None:
    """One dies while its partitions are being written down, and its name comes back before that is done."""
    world = World()
    world.stores_answer = False
    dead = world.join("a", offset_reset=OffsetReset.ERROR)
    other = world.join("b", offset_reset=OffsetReset.ERROR)
    world.run(200)
    world.lose(dead)
    while dead.member_id in world.state.groups["g"].members:
        world.run(10)
    living = world.join("a", offset_reset=OffsetReset.ERROR)
    world.stores_answer = True
    world.store()
    world.run(1_000)
    assert living.partitions | other.partitions == {0, 1, 2, 3}
    given = {
        (name, owner.generation, owner.member_id)
        for store in world.stores
        for name, owner in store.owners.items()
        if owner is not None
    }
    assert len({(name, generation) for name, generation, _ in given}) == len(given)


def test_what_a_member_stopped_too_late_is_started_again_where_it_stays_its_own() -> None:
    """Its answer changes nothing, so that nobody knows that it does not read the partition any more."""
    world = World(limits=GroupLimits(ping_retries_max=1))
    first = world.join("a")
    world.run(200)
    first.is_mute = True
    second = world.join("b")
    world.run(200)
    (stop,) = first.open_orders
    while not world.state.groups["g"].failures:
        world.run(100)
        if first.pings:
            first.answer_ping()
    first.answer(stop)
    second.leave()
    first.is_mute = False
    world.run(5_000)
    assert first.partitions == {0, 1, 2, 3}


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_goodbye_that_says_what_was_just_committed_is_not_lost_with_that_commit(is_reset: bool) -> None:
    """The commit's write fails, and when it is looked at again, its consumer is no member any more."""
    world = World()
    consumer = world.join("a")
    world.run(200)
    world.stores_answer = False
    commit = ev.OffsetCommit(tp(0), consumer.reading[tp(0)].generation, 6, is_reset=is_reset)
    world.feed(ev.CommitRequested(99, "g", consumer.member_id, (commit,)))
    consumer.positions[tp(0)] = 6
    consumer.leave()
    world.stores_answer = True
    world.feed(ev.StoreRefused(world.stores[-1].store_id))
    world.run(5_000)
    assert consumer.closed is not None
    assert consumer.refusal() is None
    assert world.committed(0) == 6
