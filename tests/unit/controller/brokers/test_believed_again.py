"""A broker that was declared dead, since its port refused, answers again as the same life."""

from __future__ import annotations

from hightide_controller.core import events as ev
from hightide_controller.core.values.partition import NO_LEADER
from unit.controller.controller_world import FLIGHTS, World, broker, led, topic


def alive(broker_id: int, life: int = 1) -> ev.BrokerProcessAlive:
    return ev.BrokerProcessAlive(broker_id, broker(broker_id, life).broker_epoch)


def died(broker_id: int, life: int = 1) -> ev.BrokerProcessDied:
    return ev.BrokerProcessDied(broker_id, broker(broker_id, life).broker_epoch)


def test_a_broker_that_answers_again_is_alive_and_is_told_everything() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),))
    world.send(died(1))
    world.settle()
    world.told.clear()
    world.metadata.clear()
    world.send(alive(1))
    world.settle()
    assert world.state.is_live(1)
    assert [(d.state.leader, d.state.leader_epoch) for d in world.decisions_told_to(1)] == [(2, 1)]
    full = [sent for sent in world.metadata if sent.full]
    assert [sent.brokers for sent in full] == [((1, broker(1).broker_epoch),)]
    assert any(not sent.full and len(sent.brokers) == 2 for sent in world.metadata), "others hear of it too"


def test_what_it_was_the_last_in_sync_replica_of_is_led_again_in_a_later_epoch() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),), states={FLIGHTS: led(1, 1)})
    world.send(died(1))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == NO_LEADER
    world.send(alive(1))
    world.settle()
    assert (world.zookeeper[FLIGHTS].leader, world.zookeeper[FLIGHTS].isr) == (1, (1,))
    assert world.zookeeper[FLIGHTS].leader_epoch == 2


def test_one_that_answers_before_its_death_is_written_is_told_of_the_new_leader() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),))
    world.send(died(1))
    world.send(alive(1))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 2
    assert [(d.state.leader, d.state.leader_epoch) for d in world.decisions_told_to(1)][-1] == (2, 1)


def test_the_word_of_another_life_revives_nobody() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),))
    world.send(died(1))
    world.registered(broker(1, life=2), broker(2))
    world.send(died(1, life=2))
    world.send(alive(1, life=1))
    assert not world.state.is_live(1)
    world.send(alive(1, life=2))
    assert world.state.is_live(1)


def test_one_that_was_never_doubted_is_told_nothing_twice() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),))
    told, metadata = len(world.told), len(world.metadata)
    world.send(alive(1))
    world.send(alive(7))
    assert (len(world.told), len(world.metadata)) == (told, metadata)


def test_after_a_controller_failover_nobody_is_doubted_but_by_the_new_one() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),))
    world.send(died(1))
    world.settle()
    world.take_over_from(broker(1), broker(2))
    world.settle()
    assert world.state.is_live(1)
    told = len(world.told)
    world.send(alive(1))
    assert len(world.told) == told
