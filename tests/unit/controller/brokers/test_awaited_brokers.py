"""Partitions wait for a broker that may have more than those that lost the ends of their logs, and the
controller says for whom."""

from __future__ import annotations

from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.values.partition import NO_LEADER, LeaderAndIsr, TopicPartition
from hightide_runtime.znodes.recovered_log import RecoveredLog
from msgspec.structs import replace
from unit.controller.controller_world import FLIGHTS, TOPIC_ID, World, broker, led, topic
from unit.controller.moving_world import hear

SECOND = TopicPartition("flights", 1)
SUBJECT = "broker 1, partitions that wait for it"


def waiting(*recovered: tuple[int, int, int], isr: tuple[int, ...] = (1,)) -> LeaderAndIsr:
    """All lost their power; these have told what they still have, by broker, leader epoch and log end."""
    return replace(led(NO_LEADER, *isr, epoch=4), recovered=tuple(RecoveredLog(*log) for log in recovered))


def elected(*live: int, states: dict[TopicPartition, LeaderAndIsr]) -> World:
    flights = topic(*((1, 2, 3) for _ in states), **{"min.insync.replicas": "2"})
    return World.elected(*live, topics=(flights,), states=states)


def told(world: World, broker_id: int, epoch: int, end_offset: int) -> None:
    """A broker writes what it has before it registers."""
    held = world.zookeeper[FLIGHTS]
    logs = {log.broker_id: log for log in (*held.recovered, RecoveredLog(broker_id, epoch, end_offset))}
    world.zookeeper[FLIGHTS] = replace(
        held,
        recovered=tuple(logs[each] for each in sorted(logs)),
        partition_epoch=held.partition_epoch + 1,
    )
    hear(world)


def reports(world: World) -> list[str]:
    return [effect.message for effect in world.others if isinstance(effect, ef.LogWarning)]


def test_a_partition_that_waits_for_one_that_has_not_told_is_complained_about() -> None:
    world = elected(2, 3, states={FLIGHTS: waiting((2, 3, 10), (3, 3, 9))})
    ((subject, message),) = world.state.complaints.items()
    assert subject == SUBJECT
    for said in ("flights-0 waits for it", "start it", "docs/operating.md"):
        assert said in message
    assert [said for said in reports(world) if said.startswith(SUBJECT)] == [f"{SUBJECT}: {message}"]


def test_all_partitions_that_wait_for_one_broker_are_one_complaint() -> None:
    states = {FLIGHTS: waiting((2, 3, 10)), SECOND: waiting((2, 3, 7))}
    world = elected(2, 3, states=states)
    ((subject, message),) = world.state.complaints.items()
    assert subject == SUBJECT
    assert message.startswith("2 partitions, flights-0 among them, wait for it")


def test_the_complaint_goes_when_the_broker_is_back_and_who_has_most_leads() -> None:
    world = elected(2, 3, states={FLIGHTS: waiting((2, 3, 10), (3, 3, 9))})
    told(world, 1, 3, 8)
    world.registered(*map(broker, (1, 2, 3)))
    world.settle()
    assert (world.zookeeper[FLIGHTS].leader, world.state.complaints) == (2, {})


def test_one_that_told_of_most_and_died_again_is_waited_for() -> None:
    world = elected(2, 3, states={FLIGHTS: waiting((1, 3, 12), (2, 3, 10), (3, 3, 9))})
    assert world.zookeeper[FLIGHTS].leader == NO_LEADER
    assert list(world.state.complaints) == [SUBJECT]
    world.registered(*map(broker, (1, 2, 3)))
    world.settle()
    assert (world.zookeeper[FLIGHTS].leader, world.state.complaints) == (1, {})


def test_of_two_with_most_the_one_that_is_there_leads_and_the_other_is_not_complained_about() -> None:
    world = elected(2, 3, states={FLIGHTS: waiting((1, 3, 12), (2, 3, 12), (3, 3, 9))})
    assert world.zookeeper[FLIGHTS].leader == 2
    assert [said for said in reports(world) if said.startswith(SUBJECT)] == []


def test_a_broker_whose_replica_cannot_be_used_is_waited_for_although_it_is_alive() -> None:
    world = elected(2, 3, states={FLIGHTS: waiting((2, 3, 10), (3, 3, 9))})
    world.registered(*map(broker, (1, 2, 3)))
    world.send(ev.ReplicasFailed(1, broker(1).broker_epoch, ((TOPIC_ID, 0),)))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == NO_LEADER
    assert SUBJECT in world.state.complaints


def test_a_partition_without_a_leader_whose_logs_are_whole_is_merely_offline() -> None:
    world = elected(2, 3, states={FLIGHTS: waiting()})
    assert world.zookeeper[FLIGHTS].leader == NO_LEADER
    assert world.state.complaints == {}


def test_an_unclean_election_that_an_operator_asks_for_ends_the_wait() -> None:
    world = elected(2, 3, states={FLIGHTS: waiting((2, 3, 10), (3, 3, 9))})
    world.zookeeper[FLIGHTS] = replace(
        led(2, 2, epoch=5, version=world.zookeeper[FLIGHTS].partition_epoch + 1), unclean_epoch=5
    )
    hear(world)
    world.settle()
    assert world.state.complaints == {}


def test_a_topic_that_is_taken_away_is_waited_for_no_more() -> None:
    world = elected(2, 3, states={FLIGHTS: waiting((2, 3, 10))})
    world.zk.remove_by_hand("flights")
    world.send(ev.TopicsChanged(removed=("flights",)))
    world.settle()
    assert (world.state.complaints, world.state.awaited) == ({}, {})
