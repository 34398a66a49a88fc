"""A data directory fails: its broker lives on, but not for the partitions that it held there (KIP-112)."""

from __future__ import annotations

from hightide_controller.core import events as ev
from hightide_controller.core.values.partition import NO_LEADER, TopicPartition
from unit.controller.controller_world import FLIGHTS, TOPIC_ID, World, broker, led
from unit.controller.moving_world import begun, catch_up, replicas, world_of

SECOND = TopicPartition("flights", 1)


def fail(world: World, broker_id: int, *numbers: int, life: int = 1) -> None:
    replicas_lost = tuple((TOPIC_ID, number) for number in numbers)
    world.send(ev.ReplicasFailed(broker_id, broker(broker_id, life).broker_epoch, replicas_lost))
    world.settle()


def test_leadership_moves_and_the_isr_shrinks_where_a_replica_failed_and_nowhere_else() -> None:
    world = world_of((1, 2), (1, 2), (2, 1))
    fail(world, 1, 0)
    assert world.zookeeper[FLIGHTS] == led(2, 2, epoch=1, version=1)
    assert world.zookeeper[SECOND] == led(1, 1, 2)
    assert world.zookeeper[TopicPartition("flights", 2)] == led(2, 2, 1)


def test_a_follower_whose_replica_failed_leaves_the_isr_and_the_epoch_stays() -> None:
    world = world_of((1, 2))
    fail(world, 2, 0)
    assert world.zookeeper[FLIGHTS] == led(1, 1, version=1)


def test_the_last_member_of_the_isr_stays_remembered_in_it() -> None:
    world = world_of((1,))
    fail(world, 1, 0)
    assert (world.zookeeper[FLIGHTS].leader, world.zookeeper[FLIGHTS].isr) == (NO_LEADER, (1,))


def test_the_next_life_of_the_broker_counts_again() -> None:
    world = world_of((1,))
    fail(world, 1, 0)
    world.registered(broker(1, life=2), *(broker(broker_id) for broker_id in (2, 3, 4, 5)))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == 1
    assert world.state.complaints == {}
    assert world.state.failed_replicas == {}


def test_a_complaint_for_each_broker_says_how_many_replicas_failed() -> None:
    world = world_of((1, 2), (1, 2))
    fail(world, 1, 0)
    fail(world, 1, 1)
    ((subject, message),) = world.state.complaints.items()
    assert "broker 1" in subject
    assert message.startswith("2 of its replicas")


def test_the_same_news_again_says_nothing_new() -> None:
    world = world_of((1, 2))
    fail(world, 1, 0)
    stores = len(world.stores)
    fail(world, 1, 0)
    assert len(world.stores) == stores


def test_news_of_an_earlier_life_or_of_another_topic_is_an_echo() -> None:
    world = world_of((1, 2))
    fail(world, 1, 0, life=0)
    world.send(ev.ReplicasFailed(1, broker(1).broker_epoch, (("f" * 32, 0), (TOPIC_ID, 9))))
    assert world.pending == []
    assert world.state.complaints == {}


def test_a_broker_does_not_lead_what_it_lost_when_the_others_die() -> None:
    world = world_of((1, 2))
    world.leader_writes_isr(FLIGHTS, 1)
    fail(world, 2, 0)
    world.registered(broker(2))
    world.settle()
    assert world.zookeeper[FLIGHTS].leader == NO_LEADER


def test_a_new_controller_learns_it_anew() -> None:
    world = world_of((1, 2))
    fail(world, 2, 0)
    world.take_over()
    world.settle()
    assert world.state.failed_replicas == {}
    fail(world, 2, 0)
    assert world.state.failed_replicas == {FLIGHTS: frozenset({2})}


def test_a_partition_moves_away_from_where_its_replica_failed() -> None:
    world = world_of((1, 2))
    fail(world, 1, 0)
    begun(world, 2, 3)
    catch_up(world, 2, 3)
    assert replicas(world) == (2, 3)


def test_a_move_to_where_the_replica_fails_is_complained_about() -> None:
    world = begun(world_of((1, 2)), 2, 3)
    fail(world, 3, 0)
    assert any("broker 3, moves" in subject for subject in world.state.complaints)
    world.registered(*(broker(broker_id, 2 if broker_id == 3 else 1) for broker_id in (1, 2, 3, 4, 5)))
    world.settle()
    assert world.state.complaints == {}
    catch_up(world, 1, 2, 3)
    assert replicas(world) == (2, 3)


def test_a_topic_that_goes_takes_its_failures_along() -> None:
    world = world_of((1, 2))
    fail(world, 1, 0)
    world.zk.remove_by_hand("flights")
    world.send(ev.TopicsChanged(removed=("flights",)))
    world.settle()
    assert world.state.failed_replicas == {}


def test_a_replica_that_failed_is_not_waited_for_with_every_tick() -> None:
    world = world_of((1, 2))
    fail(world, 2, 0)
    world.send(ev.Ticked())
    assert world.pending == []
