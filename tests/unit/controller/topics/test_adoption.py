"""Topics that an operator wrote as V3 describes them get an id and a marker before any broker hears of
them."""

from __future__ import annotations

from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core import writes as wr
from hightide_controller.core.machine import step
from msgspec.structs import replace
from unit.controller.controller_world import FLIGHTS, TOPIC_ID, World, crashes, led, lost_answers, topic

BARE = replace(topic((1, 2), (2, 1)), topic_id="")
UNMARKED = replace(topic((1, 2)), has_marker=False)


def appears() -> World:
    world = World.elected(1, 2)
    world.put_topic(BARE)
    return world


def is_adopted(world: World) -> bool:
    topic_id = world.topics["flights"].topic_id
    assert world.zk.markers == {topic_id: "flights"}
    assert world.state.topics["flights"].topic_id == topic_id
    assert {d.topic_id for d in world.decisions_told_to(1)} == {topic_id}
    return len(topic_id) == 32 and world.zookeeper[FLIGHTS].leader == 1 and not world.state.work


def test_a_bare_topic_gets_an_id_a_marker_and_leaders() -> None:
    world = appears()
    world.settle()
    assert is_adopted(world)
    assert [type(write) for write in world.writes[0].writes] == [wr.TopicWrite, wr.MarkerCreated]
    assert world.topics["flights"].assignment == BARE.assignment


def test_nobody_hears_of_a_topic_whose_id_is_not_written_down() -> None:
    world = appears()
    assert world.state.topics == {}
    assert world.told == []


def test_a_topic_is_adopted_whatever_dies_on_the_way() -> None:
    for world in crashes(appears):
        assert is_adopted(world)


def test_a_topic_is_adopted_whatever_answer_is_lost() -> None:
    for world in lost_answers(appears):
        assert is_adopted(world)


def test_a_takeover_gives_a_topic_of_before_its_marker_first() -> None:
    world = World.elected(1, 2)
    world.zk.put(UNMARKED)
    world.zookeeper[FLIGHTS] = led(1, 1, 2, epoch=4, version=9)
    world.take_over()
    assert world.told == []
    world.settle()
    assert world.zk.markers == {TOPIC_ID: "flights"}
    assert world.decisions_told_to(2)[-1].state.leader_epoch == 4
    assert world.zookeeper[FLIGHTS] == led(1, 1, 2, epoch=4, version=9), "nothing else is written"


def test_a_bare_topic_that_is_seen_twice_keeps_its_first_id() -> None:
    world = appears()
    again = world.zk.read_topic("flights")
    assert again is not None
    world.send(ev.TopicsChanged(added=(again,)))
    world.settle()
    assert is_adopted(world)


def test_a_bare_topic_that_is_gone_before_it_is_adopted_is_forgotten() -> None:
    world = appears()
    world.zk.remove_by_hand("flights")
    world.send(ev.TopicsChanged(removed=("flights",)))
    world.settle()
    assert world.state.work == {}
    assert world.state.topics == {}
    assert world.zk.markers == {}


def test_a_marker_that_an_operator_took_away_is_written_again() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),))
    world.zk.markers.clear()
    world.take_over()
    world.settle()
    assert world.zk.markers == {TOPIC_ID: "flights"}


def test_a_bare_topic_with_an_intent_to_delete_it_is_adopted_and_deleted() -> None:
    world = World.elected(1, 2)
    world.zk.deletions["flights"] = ev.StoredDeletion("", 0)
    world.zk.put(BARE)
    world.take_over()
    world.settle()
    assert (world.topics, world.zk.markers, world.zk.deletions) == ({}, {}, {})
    assert world.told == []


def test_a_topic_of_the_same_name_is_not_created_meanwhile() -> None:
    world = appears()
    world.send(ev.CreateTopicRequested(1, "flights", TOPIC_ID, 1, 1))
    assert world.refusal().refusal is ef.Refusal.TOPIC_ALREADY_EXISTS


def test_whom_an_operator_takes_out_of_the_topic_znode_leaves_the_isr() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),), states={FLIGHTS: led(1, 1, 2)})
    world.zk.topics["flights"] = replace(world.zk.topics["flights"], assignment=((1,),), version=1)
    other = replace(topic((1,)), topic_id="f" * 32)
    world.state, effects = step(world.state, ev.TopicsChanged(added=(other,)))
    (read,) = effects
    assert isinstance(read, ef.ReadTopics)
    world.state, effects = step(world.state, world.zk.read(read.names))
    (store,) = [each for each in effects if isinstance(each, ef.StoreLeaderAndIsr)]
    assert store.changes[0].decided.isr == (1,)
