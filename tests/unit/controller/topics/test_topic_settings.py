"""Settings change while a topic lives: by request, or by an operator in ZooKeeper."""

from __future__ import annotations

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.effects import Refusal
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import NO_LEADER
from msgspec.structs import replace
from unit.controller.controller_world import FLIGHTS, World, broker, crashes, led, lost_answers, topic

UNCLEAN = "unclean.leader.election.enable"
ALTER = rq.AlterTopicConfigRequested(1, "flights", {"retention.ms": "7"})
PATH = "/config/topics/flights"


def flights(**configs: str) -> World:
    return World.elected(1, 2, topics=(topic((1, 2), (2, 1), **configs),))


def by_hand(world: World, configs: dict[str, str] | None, version: int = 5) -> None:
    if configs is None:
        del world.zk.configs["flights"]
        world.send(ev.ConfigsChanged({"flights": None}))
    else:
        world.zk.configs["flights"] = (configs, version)
        world.send(ev.ConfigsChanged({"flights": (configs, version)}))


def altered() -> World:
    world = flights(segment_ms="9")
    world.send(ALTER)
    return world


def test_settings_are_stored_and_brokers_hear_of_them_with_their_partitions() -> None:
    world = altered()
    world.told.clear()
    world.settle()
    assert world.zk.configs["flights"] == ({"segment.ms": "9", "retention.ms": "7"}, 1)
    assert {sent.broker_id for sent in world.told} == {1, 2}
    assert {d.name.partition for d in world.decisions_told_to(1)} == {0, 1}
    assert world.answers == []
    world.acknowledge_all()
    (answer,) = world.answers
    assert isinstance(answer, ef.AnswerTopic)
    assert answer.topic.configs == {"segment.ms": "9", "retention.ms": "7"}


def test_settings_go_back_to_their_defaults() -> None:
    world = flights(segment_ms="9")
    world.send(replace(ALTER, to_set={}, to_reset=("segment.ms",)))
    world.settle()
    assert world.zk.configs["flights"] == ({}, 1)


def test_a_topic_without_settings_gets_some() -> None:
    world = flights()
    world.send(ALTER)
    world.settle()
    assert world.zk.configs["flights"] == ({"retention.ms": "7"}, 0)


@pytest.mark.parametrize(
    ("request_", "refusal"),
    [
        (replace(ALTER, to_set={"retention.ms": "soon"}), Refusal.INVALID_CONFIG),
        (replace(ALTER, to_set={"min.insync.replicas": "3"}), Refusal.INVALID_CONFIG),
        (replace(ALTER, to_set={"retention": "7"}), Refusal.INVALID_CONFIG),
        (replace(ALTER, to_reset=("retention",)), Refusal.INVALID_CONFIG),
        (replace(ALTER, to_reset=("retention.ms",)), Refusal.INVALID_CONFIG),
        (replace(ALTER, name="none"), Refusal.UNKNOWN_TOPIC),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    request_: rq.AlterTopicConfigRequested, refusal: Refusal
) -> None:
    world = flights()
    world.send(request_)
    assert world.refusal().refusal is refusal
    assert world.pending == []


def test_validate_only_shows_the_settings_and_changes_nothing() -> None:
    world = flights(segment_ms="9")
    world.send(replace(ALTER, validate_only=True))
    (answer,) = world.answers
    assert isinstance(answer, ef.AnswerTopic)
    assert answer.topic.configs == {"segment.ms": "9", "retention.ms": "7"}
    assert world.pending == []


def test_requests_about_settings_that_come_together_go_with_one_write() -> None:
    world = altered()
    world.send(replace(ALTER, request_id=2, to_set={"retention.bytes": "1"}))
    world.send(replace(ALTER, request_id=3, to_set={"retention.ms": "8"}))
    world.settle()
    assert len(world.writes) == 2
    assert world.zk.configs["flights"][0] == {"segment.ms": "9", "retention.bytes": "1", "retention.ms": "8"}
    world.acknowledge_all()
    assert [type(answer) for answer in world.answers] == [ef.AnswerTopic] * 3


def test_settings_hold_whatever_dies_on_the_way() -> None:
    for world in crashes(altered):
        held = world.zk.configs["flights"][0]
        assert held in ({"segment.ms": "9"}, {"segment.ms": "9", "retention.ms": "7"})
        assert world.state.topics["flights"].configs == held


def test_settings_hold_whatever_answer_is_lost() -> None:
    for world in lost_answers(altered):
        assert world.zk.configs["flights"][0] == {"segment.ms": "9", "retention.ms": "7"}
        world.acknowledge_all()
        assert [type(answer) for answer in world.answers] == [ef.AnswerTopic]


def test_an_operator_that_was_quicker_keeps_what_it_wrote() -> None:
    world = altered()
    world.zk.configs["flights"] = ({"retention.bytes": "3"}, 1)
    world.settle()
    assert world.zk.configs["flights"] == ({"retention.bytes": "3", "retention.ms": "7"}, 2)


def test_an_offline_partition_is_led_at_once_where_unclean_elections_are_switched_on() -> None:
    world = World.elected(1, topics=(topic((1, 2)),), states={FLIGHTS: led(NO_LEADER, 2, epoch=3, version=3)})
    assert world.zookeeper[FLIGHTS].leader == NO_LEADER
    world.send(replace(ALTER, to_set={UNCLEAN: "true"}))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 1
    assert any(
        "unclean election" in effect.message for effect in world.others if isinstance(effect, ef.LogWarning)
    )


# ---- by hand


def test_settings_by_hand_hold_at_once() -> None:
    world = flights()
    world.told.clear()
    by_hand(world, {"retention.ms": "4"})
    assert world.state.topics["flights"].configs == {"retention.ms": "4"}
    assert {sent.broker_id for sent in world.told} == {1, 2}
    by_hand(world, None)
    assert world.state.topics["flights"].configs == {}
    assert world.state.topics["flights"].config_version is None


def test_unclean_elections_that_an_operator_switches_on_elect_at_once() -> None:
    world = World.elected(1, topics=(topic((1, 2)),), states={FLIGHTS: led(2, 2, epoch=3, version=3)})
    by_hand(world, {UNCLEAN: "true"})
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 1


def test_nonsense_by_hand_is_complained_about_and_the_old_settings_hold_on() -> None:
    world = flights(segment_ms="9")
    world.told.clear()
    by_hand(world, {"retention.ms": "soon"})
    assert list(world.state.complaints) == [PATH]
    assert world.state.topics["flights"].configs == {"segment.ms": "9"}
    assert world.told == []
    by_hand(world, {"retention.ms": "8"}, version=6)
    assert world.state.complaints == {}
    assert world.state.topics["flights"].configs == {"retention.ms": "8"}


def test_a_request_mends_nonsense_by_hand() -> None:
    world = flights(segment_ms="9")
    by_hand(world, {"retention.ms": "soon"})
    world.send(replace(ALTER, to_set={"segment.ms": "9"}))
    world.settle()
    assert world.zk.configs["flights"] == ({"segment.ms": "9"}, 6)
    assert world.state.complaints == {}
    world.acknowledge_all()
    assert [type(answer) for answer in world.answers] == [ef.AnswerTopic]


def garble(world: World) -> None:
    """An operator writes what cannot be decoded; the reader of the tree complains."""
    world.zk.configs["flights"] = ({}, 5)
    world.zk.garbled_configs.add("flights")
    world.send(ev.AdminChanged(ev.AdminZnodes(complaints={PATH: "no JSON"})))


def test_settings_that_cannot_be_decoded_leave_the_old_ones_whatever_else_is_read_of_the_topic() -> None:
    world = flights(retention_ms="-1")
    garble(world)
    world.state.want_read("flights", "")
    world.send(ev.Ticked())
    world.settle()
    assert world.state.topics["flights"].configs == {"retention.ms": "-1"}
    assert list(world.state.complaints) == [PATH]


def test_a_request_mends_settings_that_cannot_be_decoded_and_keeps_the_others() -> None:
    world = flights(retention_ms="-1")
    garble(world)
    world.send(replace(ALTER, to_set={"segment.ms": "9"}))
    world.settle()
    assert world.zk.configs["flights"] == ({"retention.ms": "-1", "segment.ms": "9"}, 6)
    assert world.state.complaints == {}


def test_a_takeover_that_meets_nonsense_keeps_what_makes_sense_and_the_topic_has_leaders() -> None:
    nonsense = {"retention.ms": "soon", "segment.ms": "9", "min.insync.replicas": "4", "no.such": "x"}
    world = flights()
    world.zk.configs["flights"] = (nonsense, 3)
    world.take_over()
    world.registered(broker(2))
    world.settle()
    assert world.state.topics["flights"].configs == {"segment.ms": "9", "min.insync.replicas": "2"}
    assert list(world.state.complaints) == [PATH]
    assert world.zookeeper[FLIGHTS].leader == 2
