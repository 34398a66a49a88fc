"""A replica has damaged batches: it leaves the ISR unless it is the last, is complained about, and comes
back."""

from __future__ import annotations

import pytest
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide_controller.contract import convert_requests
from hightide_controller.core import events as ev
from hightide_controller.core.values.partition import TopicPartition
from hightide_runtime.errors import ServiceError
from unit.controller.controller_world import FLIGHTS, TOPIC_ID, World, broker, led, topic
from unit.controller.moving_world import BROKERS, begun, catch_up, hear, replicas, world_of


def damage(world: World, broker_id: int, *numbers: int, offset: int = 7, life: int = 1) -> None:
    damaged = tuple((TOPIC_ID, number, offset) for number in numbers)
    world.send(ev.ReplicasDamaged(broker_id, broker(broker_id, life).broker_epoch, damaged))
    world.settle()


def mend(world: World, broker_id: int, *numbers: int) -> None:
    whole = tuple((TOPIC_ID, number) for number in numbers)
    world.send(ev.ReplicasDamaged(broker_id, broker(broker_id).broker_epoch, (), whole))
    world.settle()


def test_a_damaged_leader_hands_over_to_one_that_is_whole_and_its_other_partitions_stay() -> None:
    world = world_of((1, 2, 3), (1, 2, 3))
    damage(world, 1, 0)
    assert world.zookeeper[FLIGHTS] == led(2, 2, 3, epoch=1, version=1)
    assert world.zookeeper[TopicPartition("flights", 1)] == led(1, 1, 2, 3)


def test_a_damaged_follower_leaves_the_isr_and_the_epoch_stays() -> None:
    world = world_of((1, 2))
    damage(world, 2, 0)
    assert world.zookeeper[FLIGHTS] == led(1, 1, version=1)


def test_the_last_member_of_the_isr_stays_and_leads_although_it_is_damaged() -> None:
    world = world_of((1,))
    damage(world, 1, 0)
    assert world.zookeeper[FLIGHTS] == led(1, 1)
    assert len(world.state.complaints) == 1


def test_a_damaged_replica_that_has_all_that_is_committed_leads_where_the_others_die() -> None:
    # It is mended in place: its log keeps its end, and all that is whole.
    strict = topic((1, 2), **{"min.insync.replicas": "2"})
    world = World.elected(*BROKERS, topics=(strict,))
    damage(world, 1, 0)
    assert (world.zookeeper[FLIGHTS].isr, world.zookeeper[FLIGHTS].eligible) == ((2,), (1,))
    world.registered(*(broker(broker_id) for broker_id in (1, 3, 4, 5)))
    world.settle()
    assert (world.zookeeper[FLIGHTS].leader, world.zookeeper[FLIGHTS].isr) == (1, (1,))


def test_of_two_that_are_damaged_one_stays_until_the_other_is_whole_and_in_sync() -> None:
    world = world_of((1, 2))
    damage(world, 1, 0)
    damage(world, 2, 0, offset=99)
    assert world.zookeeper[FLIGHTS] == led(2, 2, epoch=1, version=1)
    mend(world, 1, 0)
    assert world.zookeeper[FLIGHTS].isr == (2,)
    world.leader_writes_isr(FLIGHTS, 1, 2)
    hear(world)
    world.settle()
    assert (world.zookeeper[FLIGHTS].leader, world.zookeeper[FLIGHTS].isr) == (1, (1,))
    mend(world, 2, 0)
    assert world.state.complaints == {}


def test_one_that_its_leader_has_let_in_unheard_leaves_again() -> None:
    world = world_of((1, 2))
    world.leader_writes_isr(FLIGHTS, 1)
    hear(world)
    world.settle()
    world.leader_writes_isr(FLIGHTS, 1, 2)
    damage(world, 2, 0)
    assert world.zookeeper[FLIGHTS].isr == (1,)


def test_one_that_is_damaged_leads_on_where_the_other_shuts_down() -> None:
    world = world_of((1, 2))
    world.send(ev.ControlledShutdownRequested(5, 2, broker(2).broker_epoch))
    world.settle()
    damage(world, 1, 0)
    assert world.zookeeper[FLIGHTS] == led(1, 1, version=1)


def test_the_complaint_says_where_the_damage_is_and_goes_when_it_is_mended() -> None:
    world = world_of((1, 2))
    damage(world, 1, 0)
    ((subject, message),) = world.state.complaints.items()
    assert subject == "replica of flights-0 on broker 1"
    assert message.startswith("is damaged at offset 7: ")
    mend(world, 1, 0)
    assert world.state.complaints == {}
    assert world.state.damaged_replicas == {}


def test_a_follower_that_keeps_what_its_leader_lacks_leaves_the_isr_and_the_complaint_says_what_to_do() -> (
    None
):
    world = world_of((1, 2))
    divergence = ev.Divergence(offset=7, high_watermark=9, leader=1, leader_epoch=4)
    world.send(ev.ReplicasDamaged(2, broker(2).broker_epoch, (), (), ((TOPIC_ID, 0, divergence),)))
    world.settle()
    assert world.zookeeper[FLIGHTS] == led(1, 1, version=1)
    ((subject, message),) = world.state.complaints.items()
    assert subject == "replica of flights-0 on broker 2"
    for said in ("below 9", "leader 1 in epoch 4", "end at 7", "docs/operating.md"):
        assert said in message
    mend(world, 2, 0)
    assert world.state.complaints == {}


def test_what_was_mended_may_join_again_and_stays() -> None:
    world = world_of((1, 2))
    damage(world, 2, 0)
    mend(world, 2, 0)
    world.leader_writes_isr(FLIGHTS, 1, 2)
    hear(world)
    world.settle()
    assert world.zookeeper[FLIGHTS].isr == (1, 2)


def test_the_same_news_again_says_nothing_new() -> None:
    world = world_of((1, 2))
    damage(world, 1, 0)
    stores = len(world.stores)
    damage(world, 1, 0)
    assert len(world.stores) == stores


def test_news_of_another_life_of_another_topic_or_of_no_replica_is_an_echo() -> None:
    world = world_of((1, 2))
    damage(world, 1, 0, life=0)
    damage(world, 3, 0)
    world.send(ev.ReplicasDamaged(1, broker(1).broker_epoch, (("f" * 32, 0, 0), (TOPIC_ID, 9, 0))))
    mend(world, 2, 0)
    assert world.pending == []
    assert world.state.complaints == {}


def test_the_next_life_of_the_broker_tells_anew() -> None:
    world = world_of((1, 2))
    damage(world, 1, 0)
    world.registered(broker(1, life=2), *(broker(broker_id) for broker_id in (2, 3, 4, 5)))
    world.settle()
    assert world.state.damaged_replicas == {}
    assert world.state.complaints == {}


def test_a_new_controller_is_told_anew() -> None:
    world = world_of((1, 2))
    damage(world, 1, 0)
    world.take_over()
    world.settle()
    assert world.state.damaged_replicas == {}
    damage(world, 1, 0)
    assert world.state.damaged_replicas == {FLIGHTS: frozenset({1})}


def test_a_replica_that_is_moved_away_or_deleted_takes_its_complaint_along() -> None:
    world = world_of((1, 2), (1, 2))
    damage(world, 1, 0, 1)
    begun(world, 2, 3)
    catch_up(world, 2, 3)
    assert replicas(world) == (2, 3)
    assert list(world.state.complaints) == ["replica of flights-1 on broker 1"]
    world.zk.remove_by_hand("flights")
    world.send(ev.TopicsChanged(removed=("flights",)))
    world.settle()
    assert world.state.complaints == {}


def test_damage_that_is_found_while_a_move_is_under_way_does_not_stop_it() -> None:
    world = begun(world_of((1, 2)), 3, 4)
    damage(world, 1, 0)
    catch_up(world, 2, 3, 4)
    assert replicas(world) == (3, 4)
    assert set(world.zookeeper[FLIGHTS].isr) == {3, 4}


def test_a_leader_whose_clients_wait_for_its_disk_hands_over_and_comes_back() -> None:
    world = world_of((1, 2, 3))
    world.send(ev.ReplicasDamaged(1, broker(1).broker_epoch, (), hanging=((TOPIC_ID, 0),)))
    world.settle()
    assert world.zookeeper[FLIGHTS] == led(2, 2, 3, epoch=1, version=1)
    (complaint,) = world.state.complaints.values()
    assert "waits for its disk" in complaint
    mend(world, 1, 0)
    assert world.state.complaints == {}


def differ(world: World, broker_id: int, offset: int) -> None:
    where = ev.Divergence(offset, offset + 4, 1, 0)
    epoch = broker(broker_id).broker_epoch
    world.send(ev.ReplicasDamaged(broker_id, epoch, (), differing=((TOPIC_ID, 0, where),)))
    world.settle()


def test_a_replica_that_differs_from_its_leader_is_complained_about_and_nobody_is_elected() -> None:
    world = world_of((1, 2, 3))
    differ(world, 2, 8)
    assert world.zookeeper[FLIGHTS] == led(1, 1, 2, 3)
    ((subject, message),) = world.state.complaints.items()
    assert subject == "replica of flights-0 on broker 2, beside its leader"
    assert "other batches than its leader, broker 1, somewhere in the offsets 8 to 11" in message
    mend(world, 2, 0)
    assert len(world.state.complaints) == 1, "it says nothing about damage"
    differ(world, 2, -1)
    assert world.state.complaints == {}


def test_a_difference_is_forgotten_with_the_life_that_told_it_and_with_the_partition() -> None:
    world = world_of((1, 2, 3))
    differ(world, 2, 8)
    world.registered(broker(1), broker(2, 2), broker(3))
    world.settle()
    assert world.state.complaints == {}
    world = world_of((1, 2, 3))
    differ(world, 2, 8)
    world.zk.remove_by_hand("flights")
    world.send(ev.TopicsChanged(removed=("flights",)))
    world.settle()
    assert world.state.complaints == {}


def test_a_report_is_taken_apart_by_condition() -> None:
    def replica(number: int, condition: int, offset: int = 0) -> controller_pb2.FailedReplica:
        return controller_pb2.FailedReplica(
            topic_id=bytes.fromhex(TOPIC_ID),
            partition=number,
            condition=condition,  # type: ignore[arg-type]
            damaged_offset=offset,
        )

    request = controller_pb2.ReportFailedReplicasRequest(
        broker_id=1, broker_epoch=9, replicas=[replica(0, 0), replica(1, 1, 5), replica(2, 2)]
    )
    assert convert_requests.failed_replicas_in(request) == [
        ev.ReplicasFailed(1, 9, ((TOPIC_ID, 0),)),
        ev.ReplicasDamaged(1, 9, ((TOPIC_ID, 1, 5),), ((TOPIC_ID, 2),)),
    ]
    diverged = replica(4, 3)
    diverged.divergence.CopyFrom(
        controller_pb2.Divergence(offset=5, high_watermark=8, leader=2, leader_epoch=6)
    )
    del request.replicas[:]
    request.replicas.append(diverged)
    assert convert_requests.failed_replicas_in(request) == [
        ev.ReplicasDamaged(1, 9, (), (), ((TOPIC_ID, 4, ev.Divergence(5, 8, 2, 6)),)),
    ]
    request.replicas.append(replica(5, 4))
    assert convert_requests.failed_replicas_in(request) == [
        ev.ReplicasDamaged(1, 9, (), (), ((TOPIC_ID, 4, ev.Divergence(5, 8, 2, 6)),), ((TOPIC_ID, 5),)),
    ]
    differs = replica(6, 5)
    differs.divergence.CopyFrom(
        controller_pb2.Divergence(offset=5, high_watermark=8, leader=2, leader_epoch=6)
    )
    request.replicas.append(differs)
    (event,) = convert_requests.failed_replicas_in(request)
    assert isinstance(event, ev.ReplicasDamaged)
    assert event.differing == ((TOPIC_ID, 6, ev.Divergence(5, 8, 2, 6)),)
    request.replicas.append(replica(3, 9))
    with pytest.raises(ServiceError, match="replica condition 9 is not known"):
        convert_requests.failed_replicas_in(request)
