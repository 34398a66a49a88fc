"""What was asked of a topic, or left of it, never happens to another topic that bears its name later."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core import writes as wr
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import TopicPartition
from msgspec.structs import replace
from unit.controller.controller_world import FLIGHTS, TOPIC_ID, World, broker, topic
from unit.controller.moving_world import begun, replicas, world_of

OTHER_ID = "0" * 31 + "2"
SHRINK = partial(rq.RemovePartitionsRequested, 2, "flights", 1)


def replace_by_hand(world: World, other: ev.Topic) -> None:
    """An operator deletes the topic znode and creates another one; the watch tells."""
    world.zk.remove_by_hand(other.name)
    world.zk.put(other)
    found = world.zk.read_topic(other.name)
    assert found is not None
    world.send(ev.TopicsChanged(added=(found,)))


def test_a_move_that_ended_with_its_topic_is_not_taken_back_in_a_namesake() -> None:
    world = begun(world_of((1, 2)), 3)
    world.send(rq.DeleteTopicRequested(2, "flights"))
    world.settle()
    assert world.state.work == {}
    world.zk.put(replace(topic((1, 2, 3)), topic_id=OTHER_ID))
    found = world.zk.read_topic("flights")
    assert found is not None
    world.send(ev.TopicsChanged(added=(found,)))
    world.settle()
    assert replicas(world) == (1, 2, 3)
    assert world.state.work == {}


def test_a_shrink_that_was_asked_of_a_topic_takes_nothing_from_its_namesake() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2), (2, 1)),))
    world.send(rq.RemovePartitionsRequested(2, "flights", 1))
    replace_by_hand(world, replace(topic((1, 2), (2, 1)), topic_id=OTHER_ID))
    world.settle()
    assert world.topics["flights"].topic_id == OTHER_ID
    assert len(world.topics["flights"].assignment) == 2
    assert world.zookeeper[TopicPartition("flights", 1)].leader == 2
    assert world.refusal().refusal is ef.Refusal.UNKNOWN_TOPIC


def test_a_decision_that_was_stored_for_a_topic_is_none_about_its_namesake() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),))
    world.registered(broker(2))
    (store,) = (each for each in world.pending if isinstance(each, ef.StoreLeaderAndIsr))
    world.pending.remove(store)
    assert world.try_apply(store)
    # Before its answer is heard, an operator replaces the topic, and that is heard of.
    replace_by_hand(world, replace(topic((2, 1)), topic_id=OTHER_ID))
    world.settle()
    world.send(ev.StoreCommitted(store.store_id))
    world.settle()
    told = [each.state.leader_epoch for each in world.decisions_told_to(2) if each.topic_id == OTHER_ID]
    assert set(told) == {0}, "its own first decision, and no other"
    assert world.zookeeper[FLIGHTS].leader_epoch == 0


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("ask", [partial(rq.DeleteTopicRequested, 2, "flights"), SHRINK])
def test_what_is_asked_of_a_topic_by_its_id_is_refused_where_a_namesake_has_its_place(
    ask: Callable[..., rq.DeleteTopicRequested | rq.RemovePartitionsRequested], validate_only: bool
) -> None:
    world = World.elected(1, 2, topics=(topic((1, 2), (2, 1)),))
    world.send(ask(topic_id=OTHER_ID, validate_only=validate_only))
    world.settle()
    refused = world.refusal()
    assert refused.refusal is ef.Refusal.INCONSISTENT_TOPIC_ID
    assert OTHER_ID in refused.message
    assert TOPIC_ID in refused.message
    assert len(world.topics["flights"].assignment) == 2
    assert world.state.work == {}


def test_what_is_asked_of_a_topic_by_its_id_is_done() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2), (2, 1)),))
    world.send(SHRINK(topic_id=TOPIC_ID))
    world.settle()
    assert len(world.topics["flights"].assignment) == 1
    world.send(rq.DeleteTopicRequested(3, "flights", topic_id=TOPIC_ID))
    world.settle()
    assert world.topics == {}


def test_the_marker_of_a_topic_that_an_operator_replaced_goes_before_the_other_one_is_adopted() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),))
    replace_by_hand(world, replace(topic((1, 2)), topic_id=""))
    world.settle()
    kinds = [type(write) for sent in world.writes for write in sent.writes]
    assert kinds.index(wr.MarkerRemoved) < kinds.index(wr.MarkerCreated)
    assert list(world.zk.markers.values()) == ["flights"]
    assert TOPIC_ID not in world.zk.markers
    assert world.zookeeper[FLIGHTS].leader == 1


def test_the_answer_to_a_read_of_an_earlier_term_says_nothing_about_the_topic_of_this_one() -> None:
    world = World.elected(1, 2)
    stale = world.zk.read(["flights"])
    world.send(ev.Fenced())
    world.zk.put(topic((1, 2)))
    world.epoch_version += 1
    world.be_elected(broker(1), broker(2), epoch=2)
    world.settle()
    world.send(stale)
    assert world.stops == []
    assert "flights" in world.state.topics
