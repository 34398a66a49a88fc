"""Topics go, by request or by hand, whatever dies on the way, and whatever comes back under their name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.effects import ANY_LEADER_EPOCH, Refusal
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import LeaderAndIsr, TopicPartition
from msgspec.structs import replace
from unit.controller.controller_world import (
    FLIGHTS,
    TOPIC_ID,
    World,
    broker,
    crashes,
    led,
    lost_answers,
    topic,
)

Begin = Callable[[], World]

DELETE = rq.DeleteTopicRequested(1, "flights")
OTHER_ID = "0" * 31 + "2"
NAMESAKE = replace(topic((2, 1)), topic_id=OTHER_ID)
BY_HAND = ev.AdminZnodes(deletions={"flights": ev.StoredDeletion("", 0)})
INTENT_PATH = "/admin/delete_topics/flights"


def flights(*brokers: int) -> World:
    """A topic of two partitions with settings, on brokers 1 and 2."""
    return World.elected(*(brokers or (1, 2)), topics=(topic((1, 2), (2, 1), retention_ms="5"),))


def nothing_is_left(world: World) -> bool:
    zk = world.zk
    left = (zk.topics, zk.states, zk.markers, zk.configs, zk.deletions, zk.moves, zk.additions, zk.removals)
    return not any(left) and not world.state.topics and not world.state.work


def asked(event: rq.DeleteTopicRequested = DELETE) -> World:
    world = flights()
    world.send(event)
    return world


def intended() -> World:
    world = flights()
    world.write_admin(BY_HAND)
    return world


def test_a_deleted_topic_leaves_nothing_and_its_brokers_stop() -> None:
    world = asked()
    world.settle()
    assert nothing_is_left(world)
    for broker_id in (1, 2):
        assert world.stops_told_to(broker_id) == [
            ef.ReplicaStop("flights", TOPIC_ID, number, ANY_LEADER_EPOCH, None) for number in (0, 1)
        ]
    assert world.metadata[-1].deleted_topic_ids == (TOPIC_ID,)


def test_a_deletion_is_answered_when_the_live_brokers_have_stopped() -> None:
    world = asked()
    world.settle()
    assert world.answers == []
    world.acknowledge_all()
    (answer,) = world.answers
    assert isinstance(answer, ef.AnswerTopic)
    assert answer.topic.name == "flights"
    assert answer.topic.assignment == ((1, 2), (2, 1))
    assert answer.absent_brokers == ()


def test_a_deletion_while_a_broker_is_down_names_it_and_does_not_wait_for_it() -> None:
    world = flights()
    world.registered(broker(1))
    world.settle()
    world.send(DELETE)
    world.settle()
    assert nothing_is_left(world)
    assert world.stops_told_to(2) == []
    world.acknowledge_all()
    (answer,) = world.answers
    assert isinstance(answer, ef.AnswerTopic)
    assert answer.absent_brokers == (2,)


def test_the_intent_is_written_with_the_topics_id_before_anything_is_touched() -> None:
    world = asked()
    world.perform(world.pending.pop(0))
    assert world.zk.deletions == {"flights": ev.StoredDeletion(TOPIC_ID, 0)}
    assert len(world.zookeeper) == 2


def test_nobody_is_elected_for_a_topic_that_is_being_deleted() -> None:
    world = asked()
    world.registered(broker(2))
    world.settle()
    assert nothing_is_left(world)
    assert world.told[-1].decisions[0].state.leader_epoch == 0, "as when it was created"


def test_a_leader_that_changes_its_isr_meanwhile_only_delays_it() -> None:
    world = asked()
    world.perform(world.pending.pop(0))
    world.perform(world.pending.pop(0))
    world.leader_writes_isr(FLIGHTS, 1)
    world.settle()
    assert nothing_is_left(world)


def test_a_deletion_waits_for_a_write_that_is_under_way() -> None:
    world = flights()
    world.registered(broker(1))
    world.send(DELETE)
    world.pending.sort(key=lambda effect: isinstance(effect, ef.StoreLeaderAndIsr))
    world.settle()
    assert nothing_is_left(world)


def test_a_deletion_waits_for_a_partition_that_is_being_created() -> None:
    world = World.elected(1, 2)
    world.put_topic(topic((1, 2)))
    (creation,) = world.pending
    world.pending.clear()
    world.send(DELETE)
    world.settle()
    assert "flights" in world.topics
    world.perform(creation)
    world.settle()
    assert nothing_is_left(world)


def test_an_intent_by_hand_deletes_like_a_request() -> None:
    world = intended()
    world.settle()
    assert nothing_is_left(world)
    assert world.stops_told_to(1)


@pytest.mark.parametrize("begin", [asked, intended])
def test_a_deletion_is_carried_on_from_every_step_by_the_next_controller(begin: Begin) -> None:
    count = 0
    for world in crashes(begin):
        count += 1
        if begin is asked and world.topics:
            # The controller died before the intent was written down: nobody has promised anything.
            assert world.zk.deletions == {}
            assert world.answers == [] or isinstance(world.answers[0], ef.RefuseRequest)
            continue
        assert nothing_is_left(world)
    assert count >= 6


@pytest.mark.parametrize("begin", [asked, intended])
def test_a_deletion_is_carried_on_where_the_outcome_of_a_step_is_unknown(begin: Begin) -> None:
    for world in lost_answers(begin):
        assert nothing_is_left(world)
        assert world.stops_told_to(1)
        assert world.stops_told_to(2)


def test_a_request_is_answered_though_the_last_outcome_was_unknown() -> None:
    for world in lost_answers(asked):
        world.acknowledge_all()
        assert [type(answer) for answer in world.answers] == [ef.AnswerTopic]


def test_an_intent_that_is_taken_away_half_way_is_written_again() -> None:
    world = asked()
    world.perform(world.pending.pop(0))
    world.perform(world.pending.pop(0))
    world.write_admin(ev.AdminZnodes(deletions={"flights": None}))
    world.settle()
    assert nothing_is_left(world)


def test_a_large_topic_goes_in_chunks() -> None:
    world = World.elected(1, 2, topics=(topic(*[(1, 2)] * 2_000),))
    world.send(DELETE)
    world.settle()
    assert nothing_is_left(world)
    assert len(world.writes) == 1 + 5, "499 partitions go with each"
    assert len(world.stops_told_to(1)) == 2_000


def test_what_an_operator_wanted_of_the_topic_goes_with_it() -> None:
    world = flights()
    world.write_admin(
        ev.AdminZnodes(
            reassignments={TopicPartition("flights", 1): ev.StoredReassignment((3,), (), 0)},
            additions={TopicPartition("flights", 9): ev.StoredAddition((1,), 4)},
            removals={FLIGHTS: ev.StoredRemoval(2)},
            deletions=BY_HAND.deletions,
        )
    )
    world.settle()
    assert nothing_is_left(world)
    assert world.state.complaints == {}


def test_znodes_that_belong_to_no_partition_do_not_keep_a_topic_alive() -> None:
    world = flights()
    world.zookeeper[TopicPartition("flights", 7)] = led(1, 1, version=3)
    world.send(DELETE)
    world.settle()
    assert nothing_is_left(world)


@pytest.mark.parametrize("intent", [ev.StoredDeletion("", 0), ev.StoredDeletion(TOPIC_ID, 1)])
@pytest.mark.parametrize("states", [{}, {FLIGHTS: led(1, 1, 2, version=6)}])
def test_a_takeover_finds_the_intent_and_half_deleted_states(
    intent: ev.StoredDeletion, states: dict[TopicPartition, LeaderAndIsr]
) -> None:
    world = World.elected(1, 2, topics=(topic((1, 2), (2, 1)),), states=states)
    world.zookeeper.clear()
    world.zookeeper.update(states)
    world.zk.deletions["flights"] = intent
    world.told.clear()
    world.take_over()
    world.settle()
    assert nothing_is_left(world)
    assert world.told == [], "no LeaderAndISR about a topic on its way out"


def test_deleting_what_is_not_there_is_refused() -> None:
    world = World.elected(1)
    world.send(DELETE)
    assert world.refusal().refusal is Refusal.UNKNOWN_TOPIC


def test_validate_only_deletes_nothing() -> None:
    world = asked(replace(DELETE, validate_only=True))
    assert [type(answer) for answer in world.answers] == [ef.AnswerTopic]
    assert world.pending == []


def test_two_who_delete_the_same_topic_are_both_answered() -> None:
    world = asked()
    world.send(replace(DELETE, request_id=2))
    world.settle()
    world.acknowledge_all()
    assert [answer.request_id for answer in world.answers if isinstance(answer, ef.AnswerTopic)] == [1, 2]


def test_who_waits_too_long_for_a_deletion_hears_that_it_may_still_happen() -> None:
    world = asked()
    world.send(ev.WaitExpired(1))
    assert world.refusal().refusal is Refusal.TIMED_OUT
    world.settle()
    assert nothing_is_left(world)


def test_other_requests_about_the_topic_are_refused_meanwhile() -> None:
    world = flights()
    world.send(rq.AddPartitionsRequested(2, "flights", 3))
    world.send(DELETE)
    world.send(rq.AddPartitionsRequested(3, "flights", 4))
    world.send(ev.CreateTopicRequested(4, "flights", OTHER_ID, 1, 1))
    world.settle()
    refused = {a.request_id: a.refusal for a in world.answers if isinstance(a, ef.RefuseRequest)}
    assert refused == dict.fromkeys((2, 3, 4), Refusal.TOPIC_BEING_DELETED)
    assert nothing_is_left(world)


# ---- intents that make no sense


def test_an_intent_without_a_topic_is_complained_about_once_and_left_alone() -> None:
    world = World.elected(1)
    world.write_admin(BY_HAND)
    world.settle()
    assert list(world.state.complaints) == [INTENT_PATH]
    world.registered(broker(1), broker(2))
    world.settle()
    assert len([effect for effect in world.others if isinstance(effect, ef.LogWarning)]) == 1
    assert world.writes == []
    world.write_admin(ev.AdminZnodes(deletions={"flights": None}))
    assert world.state.complaints == {}
    assert world.state.work == {}


def test_an_intent_about_an_earlier_topic_harms_its_namesake_not() -> None:
    world = flights()
    world.write_admin(ev.AdminZnodes(deletions={"flights": ev.StoredDeletion(OTHER_ID, 3)}))
    world.settle()
    assert list(world.state.complaints) == [INTENT_PATH]
    assert world.writes == []
    world.send(DELETE)
    world.settle()
    assert nothing_is_left(world)
    assert world.state.complaints == {}


def test_a_topic_is_not_created_where_an_intent_would_delete_it_at_once() -> None:
    world = World.elected(1)
    world.write_admin(BY_HAND)
    world.send(ev.CreateTopicRequested(1, "flights", OTHER_ID, 1, 1))
    assert world.refusal().refusal is Refusal.TOPIC_BEING_DELETED
    assert INTENT_PATH in world.refusal().message


def test_an_intent_that_was_begun_and_whose_topic_is_gone_is_cleared_away() -> None:
    world = World.elected(1)
    world.write_admin(ev.AdminZnodes(deletions={"flights": ev.StoredDeletion(TOPIC_ID, 1)}))
    world.settle()
    assert nothing_is_left(world)


# ---- by hand, and again under the same name


def test_a_topic_znode_that_an_operator_takes_away_is_a_deletion_from_its_last_step_on() -> None:
    world = flights()
    world.zk.remove_by_hand("flights")
    world.send(ev.TopicsChanged(removed=("flights",)))
    world.settle()
    assert world.zk.markers == {}
    assert {stop.topic_id for stop in world.stops_told_to(2)} == {TOPIC_ID}
    assert world.metadata[-1].deleted_topic_ids == (TOPIC_ID,)
    assert world.state.topics == {}
    assert world.state.work == {}


def test_a_marker_that_is_gone_too_is_no_trouble() -> None:
    world = flights()
    world.zk.remove_by_hand("flights")
    world.zk.markers.clear()
    world.send(ev.TopicsChanged(removed=("flights",)))
    world.settle()
    assert world.state.work == {}


def test_a_topic_that_was_replaced_between_two_reads_gets_its_own_id_and_leaders() -> None:
    world = flights()
    world.zk.remove_by_hand("flights")
    world.put_topic(NAMESAKE)
    world.settle()
    assert world.state.topics["flights"].topic_id == OTHER_ID
    assert world.zk.markers == {OTHER_ID: "flights"}
    assert {stop.topic_id for stop in world.stops_told_to(1)} == {TOPIC_ID}
    assert world.decisions_told_to(2)[-1].topic_id == OTHER_ID


def test_news_of_an_earlier_topic_that_is_gone_does_not_touch_its_namesake() -> None:
    world = asked()
    world.settle()
    world.send(ev.CreateTopicRequested(2, "flights", OTHER_ID, 2, 2))
    world.settle()
    world.send(ev.TopicsChanged(removed=("flights",)))
    world.settle()
    assert world.state.topics["flights"].topic_id == OTHER_ID
    assert world.zookeeper[FLIGHTS].leader in (1, 2)


def test_a_write_about_an_earlier_topic_is_not_taken_for_one_about_its_namesake() -> None:
    world = flights()
    world.registered(broker(1))
    store = world.pending.pop(0)
    assert isinstance(store, ef.StoreLeaderAndIsr)
    world.try_apply(store)
    world.zk.remove_by_hand("flights")
    world.put_topic(NAMESAKE)
    world.settle()
    world.send(ev.StoreCommitted(store.store_id))
    world.settle()
    decided = [d for d in world.decisions_told_to(1) if d.topic_id == OTHER_ID]
    assert decided[-1].state.leader_epoch == world.zookeeper[FLIGHTS].leader_epoch == 0


def test_a_topic_that_is_gone_before_its_partitions_are_created_is_forgotten_without_a_watch() -> None:
    world = World.elected(1, 2)
    world.put_topic(topic((1, 2)))
    world.zk.remove_by_hand("flights")
    world.settle()
    assert world.state.topics == {}
    assert world.zk.markers == {}
    assert world.told == []


def test_a_leader_and_isr_that_an_operator_took_away_comes_back_with_an_epoch_of_its_own() -> None:
    world = flights()
    del world.zookeeper[FLIGHTS]
    world.registered(broker(2))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 2
    assert world.zookeeper[FLIGHTS].leader_epoch == 1, "nobody has led in that one yet"


def test_a_leader_and_isr_that_a_read_of_its_topic_does_not_find_is_created_again() -> None:
    world = flights()
    del world.zookeeper[FLIGHTS]
    hint = replace(topic((1, 2)), topic_id=OTHER_ID)
    world.send(ev.TopicsChanged(added=(hint,)))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader_epoch == 1
    assert world.decisions_told_to(2)[-1].state.leader_epoch == 1


def test_a_broker_that_comes_while_a_topic_is_deleted_is_not_told_to_hold_it() -> None:
    world = flights(1)
    world.send(DELETE)
    world.told.clear()
    world.registered(broker(1), broker(2))
    world.settle()
    assert world.told == []
    assert nothing_is_left(world)


def unreadable(world: World) -> ev.TopicsRead:
    """What is read of a topic whose znode an operator has garbled."""
    read = world.zk.read(["flights"])
    return ev.TopicsRead({}, {}, read.admin, unreadable=("flights",))


def test_a_topic_that_cannot_be_read_is_read_once_a_tick_until_it_can_be_deleted() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),))
    world.send(rq.DeleteTopicRequested(1, "flights"))
    while not isinstance(world.pending[0], ef.ReadTopics):
        world.perform(world.pending.pop(0))
    world.pending.clear()
    world.send(unreadable(world))
    assert world.pending == []
    world.send(ev.Ticked())
    (read,) = world.pending
    assert isinstance(read, ef.ReadTopics)
    world.settle()
    assert world.topics == {}
    assert world.state.work == {}


def test_nor_is_one_read_all_the_time_that_was_being_deleted_when_it_was_garbled() -> None:
    world = World.elected(1, 2)
    world.zk.deletions["flights"] = ev.StoredDeletion(TOPIC_ID, 1)
    world.take_over()
    (read,) = world.pending
    assert isinstance(read, ef.ReadTopics)
    world.pending.clear()
    world.send(unreadable(world))
    assert world.pending == []
    assert world.zk.deletions != {}
    world.send(ev.Ticked())
    world.settle()
    assert world.zk.deletions == {}
