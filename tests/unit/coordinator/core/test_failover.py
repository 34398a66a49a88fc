"""§5, §10: a coordinator takes over what ZooKeeper holds, and waits for the members it tells of (C4, C5)."""

from __future__ import annotations

import pytest
from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.machine import next_deadline_ms
from hightide_coordinator.core.state.group import GroupState
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import PartitionOwner, StoredGroup, StoredOffset
from sim.known_wrong import without
from unit.coordinator.core.group_world import Consumer, World, topic, tp

ID = b"i" * 16


def pair(instance_id: str = "") -> tuple[World, Consumer, Consumer]:
    world = World(topic(partitions=4))
    first = world.join("a", session_timeout_ms=3_000, instance_id=instance_id)
    second = world.join("b", session_timeout_ms=3_000)
    world.run(100)
    return world, first, second


def test_a_coordinator_without_groups_waits_for_nothing() -> None:
    assert next_deadline_ms(World().state) is None


def test_when_all_owners_come_back_there_is_no_rebalance() -> None:
    world, first, second = pair()
    after = world.fail_over()
    assert after.group_state() is GroupState.RECOVERING
    again = [back_at(after, each) for each in (first, second)]
    after.run(5_000)
    assert after.group_state() is GroupState.STABLE
    assert [each.orders for each in again] == [[], []]
    assert after.describe().generation == world.describe().generation
    assert [len(each.retained) for each in again] == [2, 2]
    assert after.stores == []


def back_at(world: World, consumer: Consumer, **fields: object) -> Consumer:
    return world.come_back(consumer, seen_coordinator_epoch=1, **fields)


def test_an_owner_that_does_not_come_back_within_its_session_timeout_is_dead() -> None:
    world, first, _ = pair()
    after = world.fail_over()
    again = back_at(after, first)
    after.run(2_900)
    assert again.orders == []
    after.run(300)
    assert again.partitions == {0, 1, 2, 3}


def many_after_a_takeover() -> tuple[World, list[Consumer]]:
    """Eight members of 3 s; the coordinator that takes over gets round to one of them every 600 ms."""
    world = World(topic(partitions=8))
    consumers = [world.join(f"c{number}", session_timeout_ms=3_000) for number in range(8)]
    world.run(100)
    return world.fail_over(), consumers


def test_who_still_waits_in_the_queue_of_an_overloaded_coordinator_is_not_declared_dead() -> None:
    after, consumers = many_after_a_takeover()
    again = []
    for consumer in consumers[:7]:
        after.run(600)
        again.append(back_at(after, consumer))
    after.run(290)
    again.append(back_at(after, consumers[7]))
    after.run(1_000)
    assert [each.orders for each in again] == [[]] * 8
    assert after.group_state() is GroupState.STABLE
    assert after.stores == []


def test_the_wait_for_those_that_come_back_late_ends_half_a_session_timeout_later() -> None:
    after, consumers = many_after_a_takeover()
    again = []
    for consumer in consumers[:7]:
        after.run(600)
        again.append(back_at(after, consumer))
    after.run(400)
    assert {name for each in again for name in each.partitions} == set(range(8))


def test_the_wait_ends_a_second_after_the_last_one_came_back() -> None:
    after, consumers = many_after_a_takeover()
    after.run(2_500)
    again = back_at(after, consumers[0])
    after.run(900)
    assert again.orders == []
    after.run(300)
    assert again.partitions == set(range(8))


def test_a_member_whose_stream_breaks_after_the_takeover_has_no_more_time_than_ever() -> None:
    after, consumers = many_after_a_takeover()
    again = [back_at(after, each) for each in consumers[:7]]
    after.run(2_800)
    after.lose(again[6])
    after.run(100)
    again.append(back_at(after, consumers[7]))
    after.run(950)
    alive = [*again[:6], again[7]]
    assert {name for each in alive for name in each.partitions} == set(range(8))


def test_no_session_timeout_that_an_operator_wrote_keeps_a_group_waiting_for_ever() -> None:
    world, _, _ = pair()
    generation, _ = world.generations["g"]
    world.generations["g"] = (generation, 1 << 40)
    after = world.fail_over()
    after.run(after.state.limits.session_timeout_max_ms + 10)
    assert after.group_state() is GroupState.EMPTY


def test_new_consumers_wait_until_the_recovery_ends() -> None:
    world, first, second = pair()
    after = world.fail_over()
    third = after.join("c")
    back_at(after, first)
    after.run(2_000)
    assert third.orders == []
    back_at(after, second)
    after.run(100)
    assert third.partitions
    assert after.group_state() is GroupState.STABLE


def test_a_start_that_the_dead_coordinator_never_sent_is_sent_by_the_next() -> None:
    world = World(topic(partitions=2))
    world.stores_answer = False
    consumer = world.join("a")
    world.run(100)
    world.write(world.stores[-1])
    after = world.fail_over()
    again = back_at(after, consumer)
    after.run(200)
    assert again.partitions == {0, 1}


def test_members_commit_while_the_group_recovers() -> None:
    world, first, _ = pair()
    after = world.fail_over()
    name = min(first.reading)
    generation = world.owners["g"][name].generation
    commit = ev.OffsetCommit(name, generation, 7)
    (outcome,) = after.commit(commit, member_id=first.member_id)
    assert outcome.refusal is None
    assert after.committed(name.partition) == 7


def test_a_static_members_new_process_takes_the_place_of_one_that_the_last_coordinator_knew() -> None:
    world, first, second = pair(instance_id="i")
    after = world.fail_over()
    back_at(after, second)
    again = after.join("a", instance_id="i", session_timeout_ms=3_000)
    after.run(200)
    assert again.partitions == first.partitions
    assert after.group_state() is GroupState.STABLE
    assert {owner.member_id for owner in after.owners["g"].values()} == {again.member_id, second.member_id}


def test_a_consumer_with_the_id_of_one_that_may_come_back_is_refused() -> None:
    world, _, _ = pair()
    after = world.fail_over()
    taken = after.join("a")
    assert taken.refusal() is Refusal.CONSUMER_ID_TAKEN


def test_what_is_owned_of_a_topic_that_is_gone_or_another_one_now_is_deleted() -> None:
    owner = PartitionOwner("m", "c", "", 0, 3, b"o" * 16)
    stored = StoredGroup(
        generation=3,
        session_timeout_ms=3_000,
        owners={tp(0): owner, tp(0, "gone"): owner, tp(9): owner},
        offsets={
            tp(0): StoredOffset(5, 0, b"o" * 16),
            tp(1): StoredOffset(6, 0, ID),
            tp(0, "gone"): StoredOffset(7, 0, ID),
        },
    )
    world = World(topic(partitions=4), groups={"g": stored})
    assert world.owners["g"] == {}
    assert world.offsets["g"] == {tp(1): StoredOffset(6, 0, ID)}
    assert world.group_state() is GroupState.EMPTY
    # What was owned in generation 3 was of topics that are no more: nothing of it may be said in its name.
    assert world.generations["g"][0] == 4


def test_an_offset_of_before_the_partitions_number_was_used_again_is_deleted() -> None:
    reused = topic(partitions=1)
    reused.first_leader_epochs[0] = 4
    stored = StoredGroup(1, 3_000, {}, {tp(0): StoredOffset(5, 3, ID)})
    world = World(reused, groups={"g": stored})
    assert world.offsets["g"] == {}


@pytest.mark.parametrize("again", [True, False])
def test_an_offset_that_was_reset_holds_only_until_the_partitions_number_is_used_again(again: bool) -> None:
    """A reset names no epoch. If nobody was the coordinator as the number was used again, the group skipped
    the first records of the new partition."""
    used_before = topic(partitions=1)
    used_before.first_leader_epochs[0] = 4
    world = World(used_before)
    world.feed(ev.ResetRequested(1, "g", (ev.OffsetCommit(tp(0), 0, 50),)))
    assert world.offsets["g"][tp(0)].offset == 50
    if again:
        used_before.first_leader_epochs[0] = 7
    after = world.fail_over()
    assert (tp(0) in after.offsets["g"]) == (not again)


def test_a_partition_whose_number_was_used_before_is_read_from_where_a_lookup_found() -> None:
    used_before = topic(partitions=1)
    used_before.first_leader_epochs[0] = 4
    world = World(used_before)
    consumer = world.join("a")
    world.run(100)
    assert consumer.partitions == {0}
    assert tp(0) in world.fail_over().offsets["g"]


def test_a_replacement_that_was_cut_off_halfway_is_finished() -> None:
    old, new = PartitionOwner("m1", "c", "i", 0, 1), PartitionOwner("m2", "c", "i", 0, 2)
    offsets = {tp(number): StoredOffset(0, -1, ID) for number in range(2)}
    stored = StoredGroup(2, 3_000, {tp(0): old, tp(1): new}, offsets)
    world = World(topic(partitions=2), groups={"g": stored})
    consumer = world.join("c", instance_id="i", member_id="m2")
    world.run(300)
    assert consumer.partitions == {0, 1}
    assert {owner.member_id for owner in world.owners["g"].values()} == {"m2"}


def registered_with_a_newer_epoch() -> Refusal | None:
    return World().join(seen_coordinator_epoch=2).refusal()


def test_a_consumer_that_has_seen_a_newer_coordinator_is_sent_to_it() -> None:
    assert registered_with_a_newer_epoch() is Refusal.STALE_COORDINATOR_EPOCH


def test_without_c5_a_deposed_coordinator_takes_consumers_away() -> None:
    with without("epochs_fenced"):
        assert registered_with_a_newer_epoch() is None


def test_a_deposed_coordinator_forgets_everything() -> None:
    world, first, _ = pair()
    world.feed(ev.Deposed())
    assert world.all(ef.Resign)
    assert next_deadline_ms(world.state) is None
    world.feed(ev.PingAnswered(first.connection_id, 1, 1, 1))
    assert first.refusal() is Refusal.NOT_COORDINATOR


def test_answers_to_stores_of_an_earlier_term_change_nothing() -> None:
    world = World()
    world.stores_answer = False
    consumer = world.join()
    world.run(100)
    (store,) = world.stores
    world.feed(ev.Deposed())
    world.epoch += 1
    world.elect()
    world.feed(ev.StoreCommitted(store.store_id))
    world.run(1_000)
    assert consumer.orders == []


def test_a_group_of_which_nobody_owns_anything_is_empty_and_keeps_its_offsets() -> None:
    stored = StoredGroup(7, 3_000, {}, {tp(0): StoredOffset(5, 0, ID)})
    world = World(groups={"g": stored})
    assert world.group_state() is GroupState.EMPTY
    consumer = world.join()
    world.run(100)
    assert consumer.positions[tp(0)] == 5
    assert world.describe().generation == 8


@pytest.mark.parametrize("is_first", [False, True], ids=["comes back last", "comes back first"])
def test_after_a_takeover_the_earlier_process_of_an_instance_is_fenced(is_first: bool) -> None:
    """It had been paused, and was never told that it was replaced. The new coordinator took it for the newer
    one, which it then refused."""
    world, earlier, _ = pair(instance_id="i")
    later = world.join("a", instance_id="i", session_timeout_ms=3_000)
    world.run(200)
    after = world.fail_over()
    if is_first:
        assert back_at(after, earlier).refusal() is Refusal.FENCED_INSTANCE
    again = back_at(after, later)
    if not is_first:
        assert back_at(after, earlier).refusal() is Refusal.FENCED_INSTANCE
    after.run(200)
    assert again.refusal() is None
    assert again.partitions == later.partitions


@pytest.mark.parametrize("is_first", [False, True], ids=["comes back last", "comes back first"])
def test_a_takeover_that_finds_the_earlier_process_of_an_instance_leaves_it_to_the_later_one(
    is_first: bool,
) -> None:
    """The coordinator had accepted the later one, and died before that was written."""
    world, earlier, other = pair(instance_id="i")
    world.stores_answer = False
    later = world.join("a", instance_id="i", session_timeout_ms=3_000)
    after = world.fail_over()
    back_at(after, other)
    first = back_at(after, earlier) if is_first else None
    again = back_at(after, later)
    after.run(200)
    assert again.refusal() is None
    assert again.partitions == earlier.partitions
    last = back_at(after, earlier) if first is None else first
    assert last.refusal() is Refusal.FENCED_INSTANCE


@pytest.mark.parametrize("is_first", [False, True], ids=["comes back last", "comes back first"])
def test_an_instance_that_owned_nothing_before_a_takeover_goes_to_its_later_process(is_first: bool) -> None:
    world = World(topic(partitions=1))
    world.join("b", session_timeout_ms=3_000)
    world.run(100)
    earlier = world.join("z", instance_id="i", session_timeout_ms=3_000)
    world.run(100)
    later = world.join("z", instance_id="i", session_timeout_ms=3_000)
    world.run(100)
    after = world.fail_over()
    first = back_at(after, earlier) if is_first else None
    again = back_at(after, later)
    after.run(100)
    assert again.refusal() is None
    last = back_at(after, earlier) if first is None else first
    assert last.refusal() is Refusal.FENCED_INSTANCE


def test_a_process_whose_registration_was_not_answered_does_not_fence_itself() -> None:
    """It comes back under the id that it had with the coordinator before, and its own place is taken already:
    by itself, on a stream that is not known to be broken."""
    world = World(topic(partitions=1))
    world.join("b", session_timeout_ms=3_000)
    world.run(100)
    idle = world.join("z", instance_id="i", session_timeout_ms=3_000)
    world.run(100)
    after = world.fail_over()
    unanswered = back_at(after, idle)
    again = back_at(after, idle)
    assert (unanswered.refusal(), again.refusal()) == (Refusal.FENCED_INSTANCE, None)
