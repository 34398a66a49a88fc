"""A broker that stops on purpose: leaders move first."""

from __future__ import annotations

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.effects import Refusal
from hightide_controller.core.values.partition import TopicPartition
from unit.controller.controller_world import FLIGHTS, TOPIC_ID, World, broker, led, topic

THREE = ((1, 2, 3), (2, 3, 1), (3, 1, 2))


def request(broker_id: int = 1, life: int = 1) -> ev.ControlledShutdownRequested:
    return ev.ControlledShutdownRequested(7, broker_id, broker(broker_id, life).broker_epoch)


def test_leaders_move_and_the_broker_leaves_every_isr() -> None:
    world = World.elected(1, 2, 3, topics=(topic(*THREE),))
    world.send(request())
    world.settle()
    assert all(1 not in known.isr and known.leader != 1 for known in world.zookeeper.values())
    assert world.answers == []
    world.acknowledge_all()
    assert world.answers == [ef.AnswerControlledShutdown(7, remaining_leader_count=0)]


def test_it_is_answered_with_what_it_still_leads_when_nobody_else_can() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2), (1, 2)),), states={FLIGHTS: led(1, 1)})
    world.send(request())
    world.settle()
    world.acknowledge_all()
    assert world.answers == [ef.AnswerControlledShutdown(7, remaining_leader_count=1)]
    assert world.zookeeper[FLIGHTS].leader == 1


def test_a_broker_that_holds_nothing_is_answered_at_once() -> None:
    world = World.elected(1, 2)
    world.send(request())
    assert world.answers == [ef.AnswerControlledShutdown(7, 0)]


def test_a_slow_follower_does_not_hold_it_up_for_ever() -> None:
    world = World.elected(1, 2, 3, topics=(topic(*THREE),))
    world.send(request())
    world.settle()
    world.send(ev.WaitExpired(7))
    assert world.answers == [ef.AnswerControlledShutdown(7, 0)]


def test_a_stale_isr_is_read_again_before_the_answer() -> None:
    world = World.elected(1, 2, 3, topics=(topic((1, 2, 3)),))
    world.leader_writes_isr(FLIGHTS, 1, 3)
    world.send(request())
    world.settle()
    world.acknowledge_all()
    assert world.zookeeper[FLIGHTS].leader == 3
    assert world.answers == [ef.AnswerControlledShutdown(7, 0)]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [(request(9), Refusal.UNKNOWN_BROKER), (request(1, life=5), Refusal.STALE_BROKER_EPOCH)],
)
def test_a_broker_that_is_not_registered_so_is_refused(
    asked: ev.ControlledShutdownRequested, expected: Refusal
) -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),))
    world.send(asked)
    (answer,) = world.answers
    assert isinstance(answer, ef.RefuseRequest)
    assert answer.refusal is expected
    assert world.state.shutting_down == {}


def test_a_leaving_broker_is_assigned_and_elected_nothing() -> None:
    world = World.elected(1, 2, 3, topics=(topic(*THREE),))
    world.send(request())
    world.settle()
    world.send(ev.CreateTopicRequested(8, "new", TOPIC_ID, 4, 2))
    world.settle()
    assert all(1 not in replicas for replicas in world.topics["new"].assignment)
    world.registered(broker(1), broker(3))
    world.settle()
    assert world.zookeeper[TopicPartition("flights", 0)].leader == 3


def test_after_it_registers_again_it_is_a_broker_like_any_other() -> None:
    world = World.elected(1, 2, 3, topics=(topic(*THREE),))
    world.send(request())
    world.settle()
    world.registered(broker(1, life=2), broker(2), broker(3))
    world.settle()
    assert world.state.shutting_down == {}
    world.send(ev.CreateTopicRequested(8, "new", TOPIC_ID, 3, 3))
    assert len(world.pending) == 1


def test_a_drained_broker_that_lives_on_stays_where_a_leader_has_let_it_in_again() -> None:
    world = World.elected(1, 2, 3, topics=(topic(*THREE),))
    world.send(request())
    world.settle()
    for name, known in list(world.zookeeper.items()):
        world.leader_writes_isr(name, *known.isr, 1)
    stored = len(world.stores)
    for _ in range(5):
        world.send(ev.Ticked())
        world.settle()
    assert len(world.stores) == stored, "its leaders would only take it in again, for as long as it lives"
    assert all(1 in known.isr for known in world.zookeeper.values())
    assert world.state.partitions[FLIGHTS].leader_and_isr == world.zookeeper[FLIGHTS]


def test_a_drained_broker_that_is_in_sync_again_leads_nothing_when_a_leader_dies() -> None:
    world = World.elected(1, 2, 3, topics=(topic(*THREE),))
    world.send(request())
    world.settle()
    for name, known in list(world.zookeeper.items()):
        world.leader_writes_isr(name, *known.isr, 1)
    world.send(ev.Ticked())
    world.settle()
    world.registered(broker(1), broker(3))
    world.settle()
    assert {known.leader for known in world.zookeeper.values()} == {3}
