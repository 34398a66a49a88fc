"""A broker is registered and alive, and does not acknowledge what it is told: it was made leader, and leads
nothing."""

from __future__ import annotations

from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.core.values.requests import ElectionKind, ElectLeadersRequested
from unit.controller.controller_world import FLIGHTS, World, broker, led, topic

SUBJECT = "broker 1, orders"


def silent(broker_id: int, *leads: tuple[TopicPartition, int], life: int = 1) -> ev.BrokerSilent:
    return ev.BrokerSilent(broker_id, broker(broker_id, life).broker_epoch, leads)


def answers(broker_id: int, life: int = 1) -> ev.BrokerAnswers:
    return ev.BrokerAnswers(broker_id, broker(broker_id, life).broker_epoch)


def in_sync(*isr: int, assignment: tuple[tuple[int, ...], ...] = ((1, 2, 3),)) -> World:
    return World.elected(1, 2, 3, topics=(topic(*assignment),), states={FLIGHTS: led(isr[0], *isr)})


def test_another_leads_what_a_silent_broker_was_told_to_lead_and_its_isr_stays() -> None:
    world = in_sync(1, 2, 3)
    world.send(silent(1, (FLIGHTS, 0)))
    world.settle()
    assert (world.zookeeper[FLIGHTS].leader, world.zookeeper[FLIGHTS].leader_epoch) == (2, 1)
    assert world.zookeeper[FLIGHTS].isr == (1, 2, 3), "whether it follows is for the leader to say"


def test_the_last_in_sync_replica_goes_on_to_lead_however_silent_it_is() -> None:
    world = in_sync(1)
    stores = len(world.stores)
    world.send(silent(1, (FLIGHTS, 0)))
    world.settle()
    assert len(world.stores) == stores
    assert world.zookeeper[FLIGHTS].leader == 1


def test_where_all_in_sync_replicas_are_silent_nothing_moves() -> None:
    world = in_sync(1, 2)
    world.send(silent(2))
    world.send(silent(1, (FLIGHTS, 0)))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 1


def test_a_silent_broker_goes_on_to_lead_what_it_has_acknowledged() -> None:
    other = TopicPartition("flights", 1)
    world = World.elected(
        1,
        2,
        topics=(topic((1, 2), (1, 2)),),
        states={FLIGHTS: led(1, 1, 2), other: led(1, 1, 2)},
    )
    world.send(silent(1, (FLIGHTS, 0)))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 2
    world.send(ev.Ticked())
    world.settle()
    assert world.zookeeper[other].leader == 1, "it acts as its leader"


def test_word_of_an_epoch_that_is_over_moves_nothing() -> None:
    world = World.elected(1, 2, topics=(topic((1, 2)),), states={FLIGHTS: led(1, 1, 2, epoch=4)})
    world.send(silent(1, (FLIGHTS, 3)))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 1


def test_a_silent_broker_is_not_elected_where_another_can_be() -> None:
    world = World.elected(1, 2, 3, topics=(topic((1, 2, 3)),), states={FLIGHTS: led(1, 1, 2, 3)})
    world.send(silent(2))
    world.registered(broker(2), broker(3))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 3


def test_a_new_partition_is_led_by_one_that_answers() -> None:
    world = World.elected(1, 2)
    world.send(silent(1))
    world.put_topic(topic((1, 2)))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 2


def test_it_is_complained_about_until_it_answers() -> None:
    world = in_sync(1, 2)
    world.send(silent(1, (FLIGHTS, 0)))
    assert SUBJECT in world.state.complaints
    world.send(silent(1, (FLIGHTS, 0)))
    reports = [each for each in world.others if isinstance(each, ef.LogWarning) and SUBJECT in each.message]
    assert len(reports) == 1, "once, however long it lasts"
    world.settle()
    world.send(answers(1))
    assert SUBJECT not in world.state.complaints
    assert not world.state.silent


def test_one_that_answers_again_takes_nothing_back_by_itself_and_may_be_elected() -> None:
    world = in_sync(1, 2)
    world.send(silent(1, (FLIGHTS, 0)))
    world.settle()
    world.send(answers(1))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 2
    world.registered(broker(1), broker(3))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 1


def test_leadership_is_not_given_back_to_a_silent_broker() -> None:
    world = in_sync(1, 2)
    world.send(silent(1, (FLIGHTS, 0)))
    world.settle()
    world.send(ev.BalanceDue())
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 2
    world.send(ElectLeadersRequested(7, ElectionKind.PREFERRED, (FLIGHTS,)))
    world.settle()
    (answer,) = world.answers
    assert isinstance(answer, ef.AnswerElections)
    (election,) = answer.elections
    assert "does not acknowledge" in election.outcome.message
    assert world.zookeeper[FLIGHTS].leader == 2


def test_another_life_and_a_dead_one_are_not_silent() -> None:
    world = in_sync(1, 2, 3)
    world.send(silent(1))
    world.registered(broker(1, life=2), broker(2), broker(3))
    assert not world.state.silent
    assert SUBJECT not in world.state.complaints
    world.send(silent(1, life=1))
    assert not world.state.silent
    world.send(silent(2))
    world.send(ev.BrokerProcessDied(2, broker(2).broker_epoch))
    assert not world.state.silent
    world.send(silent(2))
    assert not world.state.silent
