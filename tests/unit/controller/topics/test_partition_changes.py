"""Topics grow and shrink, by request or by hand (V3 H), and nonsense below /admin harms nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core import writes as wr
from hightide_controller.core.effects import Refusal
from hightide_controller.core.state.complaints import COMPLAINTS_MAX
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import TopicPartition
from msgspec.structs import replace
from unit.controller.controller_world import (
    FLIGHTS,
    TOPIC_ID,
    World,
    broker,
    crashes,
    lost_answers,
    topic,
)

GROW = rq.AddPartitionsRequested(1, "flights", 4)
SHRINK = rq.RemovePartitionsRequested(1, "flights", 1)


def flights(number: int) -> TopicPartition:
    return TopicPartition("flights", number)


def world_of(*assignment: tuple[int, ...], **configs: str) -> World:
    return World.elected(1, 2, 3, topics=(topic(*assignment, **configs),))


def added(**numbers: tuple[int, ...]) -> ev.AdminZnodes:
    """Znodes below /admin/partitions_add, by an operator: `added(p2=(1, 2))`."""
    return ev.AdminZnodes(
        additions={flights(int(key[1:])): ev.StoredAddition(replicas, 0) for key, replicas in numbers.items()}
    )


def removed(*numbers: int) -> ev.AdminZnodes:
    return ev.AdminZnodes(removals={flights(number): ev.StoredRemoval(0) for number in numbers})


def assigned(world: World) -> list[tuple[int, ...]]:
    return list(world.topics["flights"].assignment)


# ---- more


def test_a_topic_grows_and_the_new_partitions_get_leaders() -> None:
    world = world_of((1, 2), (2, 3))
    world.send(GROW)
    world.settle()
    assert [len(replicas) for replicas in world.topics["flights"].assignment] == [2, 2, 2, 2]
    assert all(world.zookeeper[flights(number)].leader > 0 for number in (2, 3))
    assert world.answers == []
    world.acknowledge_all()
    (answer,) = world.answers
    assert isinstance(answer, ef.AnswerTopic)
    assert len(answer.topic.assignment) == 4


def test_new_partitions_are_spread_over_the_brokers() -> None:
    world = world_of((1, 2))
    world.send(replace(GROW, partition_count=13))
    world.settle()
    leaders = [world.zookeeper[flights(number)].leader for number in range(1, 13)]
    assert {leaders.count(broker_id) for broker_id in (1, 2, 3)} == {4}


def test_an_explicit_assignment_of_new_partitions_is_kept() -> None:
    world = world_of((1, 2), (2, 3))
    world.send(replace(GROW, assignment=((3, 1), (3, 2))))
    world.settle()
    assert world.topics["flights"].assignment == ((1, 2), (2, 3), (3, 1), (3, 2))


@pytest.mark.parametrize(
    ("request_", "refusal"),
    [
        (replace(GROW, partition_count=2), Refusal.INVALID_PARTITION_COUNT),
        (replace(GROW, partition_count=1), Refusal.INVALID_PARTITION_COUNT),
        (replace(GROW, partition_count=10_001), Refusal.INVALID_PARTITION_COUNT),
        (replace(GROW, assignment=((1, 2),)), Refusal.INVALID_ASSIGNMENT),
        (replace(GROW, assignment=((1, 2), (1, 1))), Refusal.INVALID_ASSIGNMENT),
        (replace(GROW, assignment=((1, 2), (1, 9))), Refusal.INVALID_ASSIGNMENT),
        (replace(GROW, assignment=((1, 2), ())), Refusal.INVALID_ASSIGNMENT),
        (replace(GROW, assignment=((1, 2), (1,))), Refusal.INVALID_ASSIGNMENT),
        (replace(GROW, name="none"), Refusal.UNKNOWN_TOPIC),
    ],
)
def test_growth_that_makes_no_sense_is_refused(request_: rq.AddPartitionsRequested, refusal: Refusal) -> None:
    world = world_of((1, 2), (2, 3), min_insync_replicas="2")
    for validate_only in (True, False):
        world.answers.clear()
        world.send(replace(request_, validate_only=validate_only))
        assert world.refusal().refusal is refusal
    assert world.pending == []


def test_a_topic_does_not_grow_where_too_few_brokers_are_alive() -> None:
    world = world_of((1, 2), (2, 3))
    world.registered(broker(3))
    world.settle()
    world.send(GROW)
    assert world.refusal().refusal is Refusal.INVALID_REPLICATION_FACTOR


def test_validate_only_shows_where_new_partitions_would_go() -> None:
    world = world_of((1, 2))
    world.send(replace(GROW, validate_only=True))
    (answer,) = world.answers
    assert isinstance(answer, ef.AnswerTopic)
    assert len(answer.topic.assignment) == 4
    assert world.pending == []


def test_of_two_that_grow_a_topic_to_the_same_size_the_later_one_is_refused() -> None:
    world = world_of((1, 2))
    world.send(GROW)
    world.send(replace(GROW, request_id=2))
    world.settle()
    world.acknowledge_all()
    outcomes = {answer.request_id: type(answer) for answer in world.answers}  # type: ignore[union-attr]
    assert outcomes == {1: ef.AnswerTopic, 2: ef.RefuseRequest}
    assert len(world.topics["flights"].assignment) == 4


def test_partitions_by_hand_are_added_in_the_multi_that_takes_their_znodes_away() -> None:
    world = world_of((1, 2))
    world.write_admin(added(p1=(3, 1), p2=(2, 3)))
    world.settle()
    assert world.topics["flights"].assignment == ((1, 2), (3, 1), (2, 3))
    assert world.zk.additions == {}
    assert world.state.work == {}
    assert world.zookeeper[flights(2)].isr == (2, 3)
    (store,) = world.writes
    assert [type(write) for write in store.writes] == [wr.TopicWrite, wr.AdditionDone, wr.AdditionDone]


def grows_by_request() -> World:
    world = world_of((1, 2))
    world.send(replace(GROW, partition_count=2, assignment=((3, 1),)))
    return world


def grows_by_hand() -> World:
    world = world_of((1, 2))
    world.write_admin(added(p1=(3, 1)))
    return world


@pytest.mark.parametrize("begin", [grows_by_request, grows_by_hand])
def test_partitions_are_added_once_whatever_dies_on_the_way(begin: Callable[[], World]) -> None:
    for world in crashes(begin):
        if begin is grows_by_request and len(world.topics["flights"].assignment) == 1:
            continue  # nothing of it was written yet
        assert world.topics["flights"].assignment == ((1, 2), (3, 1))
        assert world.zookeeper[flights(1)].isr == (3, 1)
        assert world.zookeeper[flights(1)].leader_epoch == 0
        assert world.zk.additions == {}
        assert world.state.complaints == {}


@pytest.mark.parametrize("begin", [grows_by_request, grows_by_hand])
def test_partitions_are_added_once_whatever_answer_is_lost(begin: Callable[[], World]) -> None:
    for world in lost_answers(begin):
        assert world.topics["flights"].assignment == ((1, 2), (3, 1))
        assert world.zookeeper[flights(1)].isr == (3, 1)
        assert world.zk.additions == {}
        world.acknowledge_all()
        assert all(isinstance(answer, ef.AnswerTopic) for answer in world.answers)


# ---- fewer


def test_a_topic_shrinks_from_the_top_and_its_brokers_stop() -> None:
    world = world_of((1, 2), (2, 3), (3, 1))
    world.send(SHRINK)
    world.settle()
    assert world.topics["flights"].assignment == ((1, 2),)
    assert set(world.zookeeper) == {FLIGHTS}
    assert world.stops_told_to(2) == [ef.ReplicaStop("flights", TOPIC_ID, 1, 0, None)]
    assert {stop.partition for stop in world.stops_told_to(3)} == {1, 2}
    assert set(world.metadata[-1].names) == {flights(1), flights(2)}
    assert world.answers == []
    world.acknowledge_all()
    (answer,) = world.answers
    assert isinstance(answer, ef.AnswerTopic)
    assert answer.topic.assignment == ((1, 2),)


def test_the_topic_znode_remembers_which_epoch_comes_after_a_removed_partition() -> None:
    world = world_of((1, 2), (2, 3))
    world.registered(broker(1), broker(3))
    world.settle()
    assert world.zookeeper[flights(1)].leader_epoch == 1
    world.send(SHRINK)
    world.settle()
    assert world.topics["flights"].first_leader_epochs == {1: 2}


def test_a_number_that_comes_back_begins_with_an_epoch_of_its_own() -> None:
    world = world_of((1, 2), (2, 3))
    world.send(SHRINK)
    world.settle()
    world.send(rq.AddPartitionsRequested(2, "flights", 2, ((2, 3),)))
    world.settle()
    assert world.zookeeper[flights(1)].leader_epoch == 1
    decision = world.decisions_told_to(2)[-1]
    assert (decision.name.partition, decision.state.leader_epoch, decision.first_leader_epoch) == (1, 1, 1)
    world.send(replace(SHRINK, request_id=3))
    world.settle()
    assert world.topics["flights"].first_leader_epochs == {1: 2}
    assert world.stops_told_to(2)[-1].leader_epoch == 1


@pytest.mark.parametrize("count", [0, -1, 2, 3])
def test_shrinking_to_nothing_or_to_more_is_refused(count: int) -> None:
    world = world_of((1, 2), (2, 3))
    for validate_only in (True, False):
        world.answers.clear()
        world.send(replace(SHRINK, partition_count=count, validate_only=validate_only))
        assert world.refusal().refusal is Refusal.INVALID_PARTITION_COUNT
    assert world.pending == []


def test_validate_only_shows_what_would_stay() -> None:
    world = world_of((1, 2), (2, 3))
    world.send(replace(SHRINK, validate_only=True))
    (answer,) = world.answers
    assert isinstance(answer, ef.AnswerTopic)
    assert answer.topic.assignment == ((1, 2),)
    assert world.pending == []


def test_a_partition_without_a_live_replica_can_go_too() -> None:
    world = world_of((1, 2), (3,))
    world.registered(broker(1), broker(2))
    world.settle()
    world.send(SHRINK)
    world.settle()
    assert world.topics["flights"].assignment == ((1, 2),)
    assert world.stops == []


def test_partitions_that_an_operator_wants_gone_go() -> None:
    world = world_of((1, 2), (2, 3), (3, 1))
    world.write_admin(removed(1, 2))
    world.settle()
    assert world.topics["flights"].assignment == ((1, 2),)
    assert world.zk.removals == {}
    assert world.state.work == {}


def test_many_partitions_go_in_chunks_from_the_top() -> None:
    world = world_of(*[(1, 2)] * 1_500)
    world.send(SHRINK)
    seen = []
    while world.pending:
        world.perform(world.pending.pop(0))
        numbers = sorted(name.partition for name in world.zookeeper)
        assert numbers == list(range(len(world.topics["flights"].assignment))), "after each chunk all fits"
        seen.append(len(numbers))
    assert seen[-1] == 1
    assert len(world.writes) in (3, 4)
    world.acknowledge_all()
    assert isinstance(world.answers[0], ef.AnswerTopic)


def shrinks_by_request() -> World:
    world = world_of((1, 2), (2, 3), (3, 1))
    world.send(SHRINK)
    return world


def shrinks_by_hand() -> World:
    world = world_of((1, 2), (2, 3), (3, 1))
    world.write_admin(removed(1, 2))
    return world


@pytest.mark.parametrize("begin", [shrinks_by_request, shrinks_by_hand])
def test_partitions_go_as_a_whole_whatever_dies_on_the_way(begin: Callable[[], World]) -> None:
    for world in crashes(begin):
        if begin is shrinks_by_request and len(world.topics["flights"].assignment) == 3:
            assert len(world.zookeeper) == 3
            continue  # nothing of it was written yet
        assert world.topics["flights"].assignment == ((1, 2),)
        assert set(world.zookeeper) == {FLIGHTS}
        assert world.topics["flights"].first_leader_epochs == {1: 1, 2: 1}
        assert world.zk.removals == {}


@pytest.mark.parametrize("begin", [shrinks_by_request, shrinks_by_hand])
def test_partitions_go_whatever_answer_is_lost(begin: Callable[[], World]) -> None:
    for world in lost_answers(begin):
        assert world.topics["flights"].assignment == ((1, 2),)
        assert set(world.zookeeper) == {FLIGHTS}
        assert {stop.partition for stop in world.stops_told_to(3)} == {1, 2}
        world.acknowledge_all()
        assert all(isinstance(answer, ef.AnswerTopic) for answer in world.answers)


def test_a_leader_that_writes_its_isr_meanwhile_only_delays_a_removal() -> None:
    world = shrinks_by_request()
    world.leader_writes_isr(flights(2), 3)
    world.settle()
    assert world.topics["flights"].assignment == ((1, 2),)


def test_a_failover_and_a_removal_of_the_same_partition_wait_for_each_other() -> None:
    world = world_of((1, 2), (2, 3))
    world.send(SHRINK)
    world.registered(broker(1), broker(3))
    world.settle()
    assert world.topics["flights"].assignment == ((1, 2),)
    world = world_of((1, 2), (2, 3))
    world.registered(broker(1), broker(3))
    world.send(SHRINK)
    world.settle()
    assert world.topics["flights"].assignment == ((1, 2),)
    assert world.topics["flights"].first_leader_epochs == {1: 2}


# ---- nonsense


@pytest.mark.parametrize(
    ("nonsense", "paths"),
    [
        (added(p1=(1, 2)), ["/admin/partitions_add/flights/1"]),
        (added(p5=(1, 2)), ["/admin/partitions_add/flights/5"]),
        (added(p3=(1, 9)), ["/admin/partitions_add/flights/3"]),
        (added(p3=(1, 9), p4=(1, 2)), ["/admin/partitions_add/flights/3", "/admin/partitions_add/flights/4"]),
        (removed(0), ["/admin/partitions_remove/flights/0"]),
        (removed(1), ["/admin/partitions_remove/flights/1"]),
        (removed(7), ["/admin/partitions_remove/flights/7"]),
    ],
)
def test_nonsense_by_hand_is_complained_about_once_and_harms_nothing(
    nonsense: ev.AdminZnodes, paths: list[str]
) -> None:
    world = world_of((1, 2), (2, 3), (3, 1))
    before = dict(world.zookeeper)
    world.write_admin(nonsense)
    world.settle()
    world.send(ev.Ticked())
    world.settle()
    assert sorted(world.state.complaints) == paths
    assert (world.zookeeper, world.writes) == (before, [])
    assert len([effect for effect in world.others if isinstance(effect, ef.LogWarning)]) == len(paths)
    gone = ev.AdminZnodes(
        additions=dict.fromkeys(nonsense.additions), removals=dict.fromkeys(nonsense.removals)
    )
    world.write_admin(gone)
    assert world.state.complaints == {}
    assert world.state.work == {}


def test_nonsense_is_found_at_a_takeover_too() -> None:
    world = world_of((1, 2))
    world.zk.removals[flights(0)] = ev.StoredRemoval(3)
    world.zk.additions[TopicPartition("none", 3)] = ev.StoredAddition((1,), 0)
    world.take_over()
    world.settle()
    assert sorted(world.state.complaints) == [
        "/admin/partitions_add/none/3",
        "/admin/partitions_remove/flights/0",
    ]


def test_what_made_no_sense_is_done_when_it_does() -> None:
    world = world_of((1, 2))
    world.write_admin(added(p2=(1, 9)))
    world.settle()
    world.write_admin(added(p1=(2, 3)))
    world.settle()
    assert assigned(world) == [(1, 2), (2, 3)]
    assert "broker 9" in world.state.complaints["/admin/partitions_add/flights/2"]
    world.registered(*(broker(broker_id) for broker_id in (1, 2, 3, 9)))
    world.settle()
    assert assigned(world) == [(1, 2), (2, 3), (1, 9)]
    assert world.state.complaints == {}


def test_partitions_of_a_topic_that_comes_later_are_added_then() -> None:
    world = World.elected(1, 2)
    world.write_admin(added(p1=(2,)))
    world.settle()
    assert list(world.state.complaints) == ["/admin/partitions_add/flights/1"]
    world.put_topic(topic((1,)))
    world.settle()
    assert world.topics["flights"].assignment == ((1,), (2,))
    assert world.state.complaints == {}


def test_a_partition_that_is_being_moved_is_not_removed() -> None:
    world = world_of((1, 2), (2, 3))
    world.write_admin(ev.AdminZnodes(reassignments={flights(1): ev.StoredReassignment((3, 1), (), 0)}))
    world.settle()
    world.zk.removals[flights(1)] = ev.StoredRemoval(0)
    world.send(SHRINK)
    assert world.refusal().refusal is Refusal.REASSIGNMENT_IN_PROGRESS
    world.send(ev.AdminChanged(removed(1)))
    assert "/admin/partitions_remove/flights/1" in world.state.complaints
    assert len(world.topics["flights"].assignment) == 2


def test_a_topic_that_zookeeper_refuses_again_and_again_rests_until_the_next_tick() -> None:
    world = world_of((1, 2))
    world.send(GROW)
    refused = 0
    while world.pending:
        effect = world.pending.pop(0)
        if isinstance(effect, ef.StoreWrites):
            refused += 1
            world.send(ev.StoreRefused(effect.store_id))
        else:
            world.perform(effect)
    assert refused == 5
    assert list(world.state.complaints) == ["topic flights"]
    world.send(ev.Ticked())
    world.settle()
    assert len(world.topics["flights"].assignment) == 4
    assert world.state.complaints == {}


def test_a_multi_that_may_still_happen_is_made_void_where_nothing_else_is_to_be_written() -> None:
    world = world_of((1, 2))
    world.write_admin(added(p1=(2, 3)))
    (store,) = world.pending
    world.pending.clear()
    assert isinstance(store, ef.StoreWrites)
    world.send(ev.StoreUnknown(store.store_id))
    del world.zk.additions[flights(1)]
    world.settle()
    assert not world.try_apply(store), "ZooKeeper has it come too late"
    assert world.topics["flights"].assignment == ((1, 2),)
    assert world.state.work == {}


def test_no_more_than_a_thousand_complaints_are_kept_however_much_nonsense_there_is() -> None:
    world = world_of((1, 2))
    world.write_admin(removed(*range(1_000, 3_000)))
    assert len(world.state.complaints) == COMPLAINTS_MAX
    world.write_admin(ev.AdminZnodes(removals={flights(number): None for number in range(1_000, 3_000)}))
    assert world.state.complaints == {}
