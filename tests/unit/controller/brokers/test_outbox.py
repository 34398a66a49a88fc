"""What a broker has still to be told: the latest decision about each partition wins."""

from __future__ import annotations

import pytest
from hightide_controller.core.brokers.outbox import STOPS_MAX, Outbox
from hightide_controller.core.effects import (
    Decision,
    ReplicaStop,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from hightide_controller.core.values.partition import LeaderAndIsr, TopicPartition
from msgspec.structs import replace


def decision(partition: int, leader_epoch: int) -> Decision:
    state = LeaderAndIsr(1, leader_epoch, (1,), 1, leader_epoch)
    return Decision(TopicPartition("flights", partition), "0" * 32, (1, 2), state)


def sent(sequence: int, *decisions: Decision) -> SendLeaderAndIsr:
    return SendLeaderAndIsr(1, 101, sequence, decisions)


def test_a_later_decision_replaces_one_that_was_not_delivered() -> None:
    outbox = Outbox()
    outbox.put(sent(1, decision(0, 1), decision(1, 1)))
    outbox.put(sent(2, decision(0, 2)))
    delivery = outbox.take()
    assert [d.state.leader_epoch for d in delivery.decisions.values()] == [2, 1]
    assert delivery.sequence == 2
    assert outbox.is_empty


def test_what_failed_is_sent_again_but_never_over_something_newer() -> None:
    outbox = Outbox()
    outbox.put(sent(1, decision(0, 1), decision(1, 1)))
    delivery = outbox.take()
    outbox.put(sent(2, decision(0, 2)))
    outbox.put_back(delivery)
    again = outbox.take()
    assert again.decisions[TopicPartition("flights", 0)].state.leader_epoch == 2
    assert again.decisions[TopicPartition("flights", 1)].state.leader_epoch == 1


def test_a_stop_that_was_not_delivered_does_not_follow_a_later_decision() -> None:
    outbox = Outbox()
    stop = ReplicaStop("flights", "0" * 32, 0, 1, 1)
    outbox.put(SendStopReplica(1, 101, 1, (stop,)))
    outbox.put(sent(2, decision(0, 2)))
    delivery = outbox.take()
    assert delivery.stops == {}
    assert [each.state.leader_epoch for each in delivery.decisions.values()] == [2]


def test_metadata_melts_into_one_and_full_outlives_a_delta() -> None:
    outbox = Outbox()
    outbox.put(SendUpdateMetadata(((1, 101),), 1, full=True))
    outbox.put(SendUpdateMetadata(((1, 101),), 2, (TopicPartition("flights", 0),), ("a",)))
    delivery = outbox.take()
    assert delivery.full
    assert delivery.has_metadata
    assert list(delivery.metadata) == [TopicPartition("flights", 0)]
    assert delivery.deleted_topic_ids == ("a",)
    outbox.put_back(delivery)
    assert outbox.take() == delivery


def test_the_list_of_brokers_alone_is_something_to_send() -> None:
    outbox = Outbox()
    outbox.put(SendUpdateMetadata(((1, 101),), 1))
    assert not outbox.is_empty


def stopped(sequence: int, *partitions: int) -> SendStopReplica:
    stops = tuple(ReplicaStop("flights", "0" * 32, partition, 3, None) for partition in partitions)
    return SendStopReplica(1, 101, sequence, stops)


def test_a_stop_replaces_a_decision_that_was_not_delivered_and_the_other_way_round() -> None:
    outbox = Outbox()
    outbox.put(sent(1, decision(0, 1), decision(1, 1)))
    outbox.put(stopped(2, 0))
    outbox.put(sent(3, decision(1, 2)))
    delivery = outbox.take()
    assert [name.partition for name in delivery.decisions] == [1]
    assert [stop.partition for stop in delivery.stops.values()] == [0]
    outbox.put(sent(4, decision(0, 4)))
    outbox.put_back(delivery)
    again = outbox.take()
    assert sorted(name.partition for name in again.decisions) == [0, 1]
    assert again.stops == {}


def test_a_stop_that_came_while_a_decision_was_under_way_outlives_its_failure() -> None:
    outbox = Outbox()
    outbox.put(sent(1, decision(0, 1)))
    delivery = outbox.take()
    outbox.put(stopped(2, 0))
    outbox.put_back(delivery)
    again = outbox.take()
    assert again.decisions == {}
    assert len(again.stops) == 1


def test_a_stop_and_a_decision_about_the_namesake_go_out_together() -> None:
    outbox = Outbox()
    outbox.put(stopped(1, 0))
    outbox.put(sent(2, replace(decision(0, 0), topic_id="1" * 32)))
    delivery = outbox.take()
    assert len(delivery.stops) == 1
    assert len(delivery.decisions) == 1


def test_where_not_all_decisions_fit_the_oldest_go_first() -> None:
    outbox = Outbox()
    outbox.put(sent(1, *(decision(partition, 1) for partition in range(5))))
    outbox.put(sent(2, decision(0, 2)))
    told = []
    while not outbox.is_empty:
        told.append(
            [(name.partition, each.state.leader_epoch) for name, each in outbox.take(2).decisions.items()]
        )
    assert told == [[(0, 2), (1, 1)], [(2, 1), (3, 1)], [(4, 1)]]


def test_the_broker_knows_everything_only_with_the_last_part_and_hears_of_all_else_but_then() -> None:
    outbox = Outbox()
    outbox.put(SendUpdateMetadata(((1, 101),), 1, full=True))
    outbox.put(sent(2, *(decision(partition, 1) for partition in range(3))))
    outbox.put(SendStopReplica(1, 101, 3, (ReplicaStop("gone", "1" * 32, 0, 4, 7),)))
    first, last = outbox.take(2), outbox.take(2)
    assert (first.sequence, first.has_metadata, first.stops) == (0, False, {})
    assert (last.sequence, last.full, len(last.stops)) == (3, True, 1)


def test_a_part_that_failed_waits_again_with_the_others() -> None:
    outbox = Outbox()
    outbox.put(sent(1, *(decision(partition, 1) for partition in range(3))))
    outbox.put_back(outbox.take(2))
    assert len(outbox.take().decisions) == 3


def test_thousands_of_stops_go_out_in_parts_so_that_what_is_decided_meanwhile_need_not_wait_for_all() -> None:
    outbox = Outbox()
    stops = tuple(ReplicaStop("old", "1" * 32, number, 0, None) for number in range(STOPS_MAX + 1))
    outbox.put(SendStopReplica(1, 101, 1, stops))
    outbox.put(SendUpdateMetadata(((1, 101),), 2, (), ("1" * 32,)))
    first = outbox.take()
    assert len(first.stops) == STOPS_MAX
    assert first.has_metadata
    assert first.sequence == 0
    assert not outbox.is_empty
    outbox.put(sent(3, decision(0, 1)))
    second = outbox.take()
    assert [stop.partition for stop in second.stops.values()] == [STOPS_MAX]
    assert len(second.decisions) == 1
    assert second.sequence == 3
    assert outbox.is_empty


@pytest.mark.parametrize(
    ("effects", "is_bare"),
    [
        ((), False),
        ((SendUpdateMetadata(((1, 101),), 1),), True),
        ((SendUpdateMetadata(((1, 101),), 1, (TopicPartition("flights", 0),)),), False),
        ((SendUpdateMetadata(((1, 101),), 1), sent(2, decision(0, 1))), False),
        ((SendUpdateMetadata(((1, 101),), 1), stopped(2, 0)), False),
    ],
)
def test_only_a_list_of_brokers_and_nothing_else_is_bare(
    effects: tuple[SendLeaderAndIsr | SendUpdateMetadata | SendStopReplica, ...], is_bare: bool
) -> None:
    outbox = Outbox()
    for effect in effects:
        outbox.put(effect)
    assert outbox.is_bare_list is is_bare
