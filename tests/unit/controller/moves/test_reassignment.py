"""Partitions move (V3 F, mended): by request and by hand, with what stops it and what takes it back."""

from __future__ import annotations

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core import writes as wr
from hightide_controller.core.effects import Refusal
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import NO_LEADER, TopicPartition
from msgspec.structs import replace
from unit.controller.controller_world import FLIGHTS, World, broker, led, lost_answers, topic
from unit.controller.moving_world import (
    begun,
    catch_up,
    hear,
    let_all_catch_up,
    move,
    outcomes,
    replicas,
    world_of,
)

SECOND = TopicPartition("flights", 1)


# ---- begin


def test_a_move_begins_with_the_original_replicas_and_the_new_ones() -> None:
    world = world_of((1, 2))
    world.send(move(3, 4))
    world.settle()
    assert replicas(world) == (1, 2, 3, 4)
    assert world.zk.moves[FLIGHTS] == ev.StoredReassignment((3, 4), (1, 2), 0)
    assert outcomes(world) == (ef.PartitionOutcome(FLIGHTS),)


def test_what_belongs_to_the_beginning_of_a_move_is_one_multi() -> None:
    world = world_of((1, 2))
    world.send(move(3, 4))
    world.settle()
    (effect,) = world.writes
    assert [type(write) for write in effect.writes] == [
        wr.TopicWrite,
        wr.LeaderAndIsrWrite,
        wr.ReassignmentWrite,
    ]


def test_the_leader_stays_in_its_epoch_and_hears_whom_it_shall_not_feed_too_fast() -> None:
    world = world_of((1, 2))
    world.told.clear()
    world.send(move(3, 4))
    world.settle()
    for broker_id in (1, 2, 3, 4):
        (decision,) = world.decisions_told_to(broker_id)
        decided = decision.state
        assert (decided.leader, decided.leader_epoch, decided.isr) == (1, 0, (1, 2))
        assert decision.replicas == (1, 2, 3, 4)
        assert decision.adding_replicas == (3, 4)
        assert decided.partition_epoch == 1
    assert world.decisions_told_to(5) == []


def test_a_request_is_answered_when_its_move_is_stored_and_not_before() -> None:
    world = world_of((1, 2))
    world.send(move(3, 4))
    assert world.answers == []
    world.settle()
    assert len(world.answers) == 1


def test_a_partition_that_never_had_a_leader_is_moved_at_once() -> None:
    world = world_of((4, 5), brokers=(1, 2))
    world.send(move(1, 2))
    world.settle()
    assert replicas(world) == (1, 2)
    assert world.zookeeper[FLIGHTS] == led(1, 1, 2)
    assert world.zk.moves == {}
    assert outcomes(world)[0].refusal is None


def test_nobody_leads_the_old_replicas_while_a_partition_without_a_leader_is_moved() -> None:
    world = world_of((4, 5), brokers=(1, 2))
    world.send(move(1, 2))
    world.registered(*(broker(broker_id) for broker_id in (1, 2, 4, 5)))
    world.settle()
    assert replicas(world) == (1, 2)
    assert set(world.zookeeper[FLIGHTS].isr) == {1, 2}


def test_an_order_of_replicas_that_are_in_sync_is_changed_in_one_step() -> None:
    world = world_of((1, 2, 3))
    world.send(move(2, 1, 3))
    world.settle()
    assert replicas(world) == (2, 1, 3)
    assert world.zk.moves == {}
    assert world.zookeeper[FLIGHTS].leader == 1
    assert outcomes(world)[0].refusal is None


def test_a_move_that_was_refused_for_a_stale_version_begins_on_what_zookeeper_holds() -> None:
    world = world_of((1, 2))
    world.leader_writes_isr(FLIGHTS, 1)
    world.send(move(3, 4))
    world.settle()
    assert replicas(world) == (1, 2, 3, 4)
    assert world.zookeeper[FLIGHTS].isr == (1,)
    assert outcomes(world)[0].refusal is None


def test_the_same_request_again_changes_nothing_and_is_answered_well() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    before = (world.topics["flights"].version, world.zookeeper[FLIGHTS])
    world.send(move(3, 4, request_id=2))
    world.settle()
    assert (world.topics["flights"].version, world.zookeeper[FLIGHTS]) == before
    assert outcomes(world)[0].refusal is None


# ---- progress and end


def test_a_move_ends_when_all_new_replicas_are_in_sync() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    catch_up(world, 1, 2, 3)
    assert replicas(world) == (1, 2, 3, 4)
    catch_up(world, 1, 2, 3, 4)
    assert replicas(world) == (3, 4)
    assert world.zk.moves == {}
    held = world.zookeeper[FLIGHTS]
    assert (held.leader, held.leader_epoch, held.isr) == (3, 1, (3, 4))


def test_what_belongs_to_the_end_of_a_move_is_one_multi() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    world.writes.clear()
    catch_up(world, 1, 2, 3, 4)
    (effect,) = world.writes
    assert [type(write) for write in effect.writes] == [
        wr.TopicWrite,
        wr.LeaderAndIsrWrite,
        wr.ReassignmentDone,
    ]


def test_the_leader_stays_where_it_may() -> None:
    world = begun(world_of((1, 2, 3)), 4, 1)
    catch_up(world, 1, 2, 3, 4)
    assert replicas(world) == (4, 1)
    assert world.zookeeper[FLIGHTS].leader == 1
    assert set(world.zookeeper[FLIGHTS].isr) == {1, 4}


def test_a_new_leader_epoch_begins_when_a_replica_leaves_and_not_when_one_comes() -> None:
    world = begun(world_of((1, 2, 3)), 4, 1)
    assert world.zookeeper[FLIGHTS].leader_epoch == 0
    catch_up(world, 1, 2, 3, 4)
    assert world.zookeeper[FLIGHTS].leader_epoch == 1
    begun(world, 1, 4, 5)
    catch_up(world, 1, 4, 5)
    assert world.zookeeper[FLIGHTS].leader_epoch == 1


def test_who_leaves_is_stopped_with_the_partition_epoch_of_the_end_and_who_stays_is_not() -> None:
    world = begun(world_of((1, 2)), 2, 3)
    world.stops.clear()
    catch_up(world, 1, 2, 3)
    (stop,) = world.stops_told_to(1)
    assert (stop.partition, stop.partition_epoch, stop.delete) == (
        0,
        world.zookeeper[FLIGHTS].partition_epoch,
        True,
    )
    assert world.stops_told_to(2) == world.stops_told_to(3) == []


def test_nobody_is_stopped_before_zookeeper_holds_the_end() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    world.leader_writes_isr(FLIGHTS, 1, 2, 3, 4)
    hear(world)
    assert world.stops == []
    world.settle()
    assert world.stops != []


def test_the_end_of_a_move_is_told_to_its_new_replicas_and_to_everybody_as_metadata() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    world.told.clear()
    world.metadata.clear()
    catch_up(world, 1, 2, 3, 4)
    for broker_id in (3, 4):
        last = world.decisions_told_to(broker_id)[-1]
        assert (last.state.leader, last.replicas, last.adding_replicas) == (3, (3, 4), ())
    assert world.metadata[-1].names == (FLIGHTS,)
    assert {broker_id for broker_id, _ in world.metadata[-1].brokers} == {1, 2, 3, 4, 5}


def test_a_dead_original_replica_holds_up_nothing() -> None:
    world = begun(world_of((1, 2, 3)), 1, 4)
    world.registered(broker(1), broker(3), broker(4))
    world.settle()
    catch_up(world, 1, 3, 4)
    assert replicas(world) == (1, 4)


def test_a_move_goes_on_when_the_leader_dies() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    world.registered(broker(2), broker(3), broker(4))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 2
    catch_up(world, 2, 3, 4)
    assert replicas(world) == (3, 4)


def test_a_move_does_not_end_on_an_isr_that_zookeeper_does_not_hold_any_more() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    world.leader_writes_isr(FLIGHTS, 1, 2, 3, 4)
    hear(world)
    world.leader_writes_isr(FLIGHTS, 1, 2, 3)
    world.settle()
    assert replicas(world) == (1, 2, 3, 4)
    assert world.stops == []


def test_while_no_new_replica_is_alive_the_old_ones_lead_on() -> None:
    world = begun(world_of((1, 2)), 3)
    world.registered(broker(1), broker(2))
    world.settle()
    world.leader_writes_isr(FLIGHTS, 1, 2, 3)
    hear(world)
    world.settle()
    assert replicas(world) == (1, 2, 3)
    assert world.zookeeper[FLIGHTS].leader == 1
    world.registered(broker(1), broker(2), broker(3, life=2))
    world.settle()
    catch_up(world, 1, 2, 3)
    assert replicas(world) == (3,)


def test_a_partition_without_a_leader_waits_for_a_new_replica_that_is_in_sync() -> None:
    world = begun(world_of((1,)), 3)
    world.leader_writes_isr(FLIGHTS, 1, 3)
    world.registered(broker(2))
    hear(world)
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == NO_LEADER
    assert replicas(world) == (1, 3)
    world.registered(broker(2), broker(3, life=2))
    world.settle()
    assert replicas(world) == (3,)
    assert world.zookeeper[FLIGHTS].leader == 3


def test_a_move_that_waits_for_a_dead_broker_is_complained_about_by_its_name() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    world.registered(broker(1), broker(2), broker(3))
    world.settle()
    (complaint,) = world.state.complaints.items()
    assert "broker 4" in complaint[0]
    assert "wait" in complaint[1]
    world.registered(broker(1), broker(2), broker(3), broker(4, life=2))
    world.settle()
    assert world.state.complaints == {}


def test_ends_that_come_together_go_in_one_multi() -> None:
    world = world_of((1, 2), (1, 2), (1, 2))
    names = [TopicPartition("flights", number) for number in range(3)]
    world.send(rq.ReassignmentsRequested(1, tuple(rq.Move(name, (3, 4)) for name in names)))
    world.settle()
    world.writes.clear()
    for name in names:
        world.leader_writes_isr(name, 1, 2, 3, 4)
    world.send(ev.StatesRead({name: world.zookeeper[name] for name in names}))
    world.settle()
    assert len(world.writes) == 1
    assert world.topics["flights"].assignment == ((3, 4),) * 3


def test_one_multi_about_a_topic_is_under_way_at_a_time_and_what_comes_meanwhile_goes_with_the_next() -> None:
    world = world_of((1, 2), (1, 2), (1, 2))
    for number in range(3):
        world.send(move(3, 4, name=TopicPartition("flights", number), request_id=number))
    assert len(world.pending) == 1
    world.settle()
    assert len(world.writes) == 2
    assert len(world.zk.moves) == 3


def test_a_thousand_moves_at_once_begin_and_end_in_a_few_multis() -> None:
    world = world_of(*((1, 2),) * 1_000)
    names = [TopicPartition("flights", number) for number in range(1_000)]
    world.writes.clear()
    world.send(rq.ReassignmentsRequested(1, tuple(rq.Move(name, (3, 4)) for name in names)))
    world.settle()
    assert len(world.zk.moves) == 1_000
    assert {outcome.refusal for outcome in outcomes(world)} == {None}
    assert len(world.writes) <= 5
    for name in names:
        world.leader_writes_isr(name, 1, 2, 3, 4)
    world.send(ev.StatesRead(dict(world.zookeeper)))
    world.settle()
    assert world.topics["flights"].assignment == ((3, 4),) * 1_000
    assert len(world.writes) <= 8


# ---- another goal


def test_a_move_under_way_is_given_another_goal_and_forgets_the_first_one() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    catch_up(world, 1, 2, 3)
    world.stops.clear()
    world.send(move(5, 2, request_id=2))
    world.settle()
    assert replicas(world) == (1, 2, 5)
    assert world.zookeeper[FLIGHTS].isr == (1, 2)
    assert world.zk.moves[FLIGHTS].original == (1, 2)
    assert len(world.stops_told_to(3)) == len(world.stops_told_to(4)) == 1
    catch_up(world, 1, 2, 5)
    assert replicas(world) == (5, 2)


# ---- cancel


def cancel(*names: TopicPartition) -> rq.CancelReassignmentsRequested:
    return rq.CancelReassignmentsRequested(8, names)


def test_a_move_is_taken_back_in_one_step() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    catch_up(world, 1, 2, 3)
    world.writes.clear()
    world.send(cancel(FLIGHTS))
    world.settle()
    assert len(world.writes) == 1
    assert replicas(world) == (1, 2)
    assert world.zookeeper[FLIGHTS].isr == (1, 2)
    assert world.zk.moves == {}
    assert outcomes(world) == (ef.PartitionOutcome(FLIGHTS),)
    assert len(world.stops_told_to(3)) == len(world.stops_told_to(4)) == 1


def test_a_new_replica_that_leads_gives_leadership_back_when_the_move_is_taken_back() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    catch_up(world, 1, 2, 3)
    world.registered(broker(3), broker(4))
    world.settle()
    world.registered(broker(1, life=2), broker(2, life=2), broker(3), broker(4))
    world.settle()
    catch_up(world, 3, 1)
    world.send(cancel(FLIGHTS))
    world.settle()
    held = world.zookeeper[FLIGHTS]
    assert (held.leader, held.isr) == (1, (1,))


def test_who_has_all_that_is_committed_stays_eligible_when_a_move_is_taken_back() -> None:
    """An ISR of one commits nothing where three are asked for: 2 and 3 left it then, and have everything."""
    world = begun(world_of((1, 2, 3), min_insync_replicas="3"), 4, 5, 1)
    held = world.zookeeper[FLIGHTS]
    world.zookeeper[FLIGHTS] = replace(
        held, leader=4, isr=(1, 4), eligible=(2, 3), leader_epoch=1, partition_epoch=held.partition_epoch + 1
    )
    hear(world)
    world.settle()
    world.send(cancel(FLIGHTS))
    world.settle()
    held = world.zookeeper[FLIGHTS]
    assert (replicas(world), held.leader, held.isr, held.eligible) == ((1, 2, 3), 1, (1,), (2, 3))


def test_taking_back_is_refused_while_no_original_replica_is_in_sync() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    catch_up(world, 1, 2, 3)
    world.registered(broker(3), broker(4))
    world.settle()
    world.send(cancel(FLIGHTS))
    (outcome,) = outcomes(world)
    assert outcome.refusal is Refusal.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert "none of [1, 2]" in outcome.message
    assert replicas(world) == (1, 2, 3, 4)
    assert FLIGHTS in world.zk.moves


def test_what_is_not_moved_cannot_be_taken_back() -> None:
    world = world_of((1, 2))
    world.send(cancel(FLIGHTS, TopicPartition("flights", 9)))
    assert [outcome.refusal for outcome in outcomes(world)] == [
        Refusal.NO_REASSIGNMENT,
        Refusal.UNKNOWN_PARTITION,
    ]


def test_all_moves_are_taken_back_where_none_is_named() -> None:
    world = begun(begun(world_of((1, 2), (2, 3)), 4, 5), 4, 5, name=SECOND)
    world.send(cancel())
    world.settle()
    assert world.topics["flights"].assignment == ((1, 2), (2, 3))
    assert [outcome.name for outcome in outcomes(world)] == [FLIGHTS, SECOND]


def test_a_move_that_waits_for_a_dead_broker_is_taken_back_and_nobody_complains_any_more() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    world.registered(broker(1), broker(2), broker(3))
    world.settle()
    world.send(cancel(FLIGHTS))
    world.settle()
    assert world.state.complaints == {}
    assert replicas(world) == (1, 2)


# ---- beside other work


def test_a_topic_is_deleted_together_with_its_moves() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    world.send(rq.DeleteTopicRequested(5, "flights"))
    world.settle()
    assert world.zk.moves == {}
    assert world.topics == {}
    assert all(len(world.stops_told_to(broker_id)) == 1 for broker_id in (1, 2, 3, 4))
    assert not world.state.moving.under_way


def test_a_partition_that_is_to_be_removed_and_is_moved_at_the_same_time_comes_to_rest() -> None:
    world = world_of((1, 2), (2, 3))
    world.send(rq.RemovePartitionsRequested(4, "flights", 1))
    world.send(move(4, 5, name=SECOND))
    world.settle()
    assert len(world.topics["flights"].assignment) == 1
    assert outcomes_of(world, 1)[0].refusal is Refusal.UNKNOWN_PARTITION
    assert world.zk.moves == {}


def outcomes_of(world: World, request_id: int) -> tuple[ef.PartitionOutcome, ...]:
    (answer,) = [
        a for a in world.answers if isinstance(a, ef.AnswerPartitions) and a.request_id == request_id
    ]
    return answer.outcomes


def test_moves_that_wait_for_a_topic_that_is_deleted_are_refused() -> None:
    world = world_of((1, 2))
    world.send(rq.AddPartitionsRequested(4, "flights", 2))
    world.send(move(3, 4))
    world.send(rq.DeleteTopicRequested(5, "flights"))
    world.settle()
    assert outcomes_of(world, 1)[0].refusal is Refusal.TOPIC_BEING_DELETED


def test_moves_of_two_topics_go_side_by_side() -> None:
    trains = topic((1, 2), name="trains")
    world = World.elected(
        *(1, 2, 3, 4), topics=(topic((1, 2)), ev.Topic("trains", "f" * 32, trains.assignment))
    )
    moves = (rq.Move(FLIGHTS, (3, 4)), rq.Move(TopicPartition("trains", 0), (3, 4)))
    world.send(rq.ReassignmentsRequested(1, moves))
    assert len(world.pending) == 2
    world.settle()
    assert [outcome.refusal for outcome in outcomes(world)] == [None, None]


# ---- the watch


def test_the_states_of_moves_under_way_are_watched_and_no_others() -> None:
    world = begun(world_of((1, 2), (2, 3)), 3, 4)
    assert watched(world) == {FLIGHTS}
    begun(world, 4, 5, name=SECOND)
    assert watched(world) == {FLIGHTS, SECOND}
    catch_up(world, 1, 2, 3, 4)
    assert watched(world) == {SECOND}


def test_a_new_controller_watches_what_it_finds_under_way() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    world.others.clear()
    world.take_over()
    world.settle()
    assert watched(world) == {FLIGHTS}


def watched(world: World) -> frozenset[TopicPartition]:
    return [each for each in world.others if isinstance(each, ef.WatchStates)][-1].names


# ---- lost answers


@pytest.mark.parametrize("target", [(3, 4), (2, 1), (1, 2, 3), (1,)])
def test_a_move_begins_once_whether_its_answer_is_lost_or_not(target: tuple[int, ...]) -> None:
    def begin() -> World:
        world = world_of((1, 2))
        world.send(move(*target))
        return world

    for world in lost_answers(begin):
        assert outcomes(world)[0].refusal is None
        let_all_catch_up(world)
        assert replicas(world) == target
        assert world.zk.moves == {}


def test_a_move_is_taken_back_once_whether_its_answer_is_lost_or_not() -> None:
    def begin() -> World:
        world = begun(world_of((1, 2)), 3, 4)
        world.send(cancel(FLIGHTS))
        return world

    for world in lost_answers(begin):
        assert outcomes(world)[0].refusal is None
        assert replicas(world) == (1, 2)


def test_a_move_ends_once_whether_its_answer_is_lost_or_not() -> None:
    def begin() -> World:
        world = begun(world_of((1, 2)), 3, 4)
        world.leader_writes_isr(FLIGHTS, 1, 2, 3, 4)
        hear(world)
        return world

    for world in lost_answers(begin):
        assert replicas(world) == (3, 4)
        assert world.zk.moves == {}
        assert len(world.stops_told_to(1)) == 1


def test_a_move_of_unknown_outcome_that_is_refused_when_it_is_tried_again_cannot_be_stored_later() -> None:
    # Otherwise it would begin one day, though whoever asked was told that it does not.
    world = world_of((1, 2))
    world.send(move(3, 4))
    (lost,) = world.pending
    assert isinstance(lost, ef.StoreWrites)
    world.pending.clear()
    world.registered(*(broker(each) for each in (1, 2, 3)))
    world.send(ev.StoreUnknown(lost.store_id))
    world.settle()
    assert outcomes(world)[0].refusal is Refusal.INVALID_ASSIGNMENT
    assert not world.try_apply(lost)
    assert replicas(world) == (1, 2)
