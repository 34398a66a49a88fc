"""Which traces a new controller carries on, from what it has read in ZooKeeper."""

from __future__ import annotations

import pytest
from hightide_controller.core.events import AdminZnodes, Broker, ClusterSnapshot, StoredDeletion, Topic
from hightide_controller.core.values.partition import LeaderAndIsr, TopicPartition
from hightide_controller.zookeeper.unfinished_work import (
    LEAVES,
    LOST,
    RECENT_MS,
    LastWrite,
    UnfinishedTrace,
    broker_parts,
    unfinished_work,
)
from hightide_runtime.telemetry.span_kinds import FAILOVER, TOPIC_CREATION, TOPIC_DELETION
from hightide_runtime.telemetry.trace_context import root_traceparent

CLUSTER, LOST_EPOCH, BROKE_AT_MS = "the-cluster", 7, 1_000_000
TOPIC = Topic("flights", "ab" * 16, ((1, 2), (2, 1)))


def snapshot(*live: int, leader: int = 2) -> ClusterSnapshot:
    state = LeaderAndIsr(leader, 3, (1, 2), LOST_EPOCH, 4)
    states = {TopicPartition("flights", number): state for number in range(2)}
    return ClusterSnapshot(tuple(Broker(each, 100 + each) for each in live), (TOPIC,), states)


def failover_of(broker_id: int, incarnation: int, registered_before: int = 0, how: str = LOST) -> str:
    return root_traceparent(FAILOVER, CLUSTER, broker_id, incarnation, registered_before, how)


def found(read: ClusterSnapshot, *writes: LastWrite) -> tuple[UnfinishedTrace, ...]:
    return unfinished_work(CLUSTER, read, {1: 5, 2: 9}, writes, LOST_EPOCH, BROKE_AT_MS)


def test_where_all_leaders_live_nothing_is_unfinished() -> None:
    assert found(snapshot(1, 2)) == ()


def test_a_leader_that_is_not_registered_is_a_failover_of_its_last_life() -> None:
    (work,) = found(snapshot(1))
    assert (work.kind, work.broker_id, work.incarnation) == (FAILOVER, 2, 9)
    assert work.traceparent == failover_of(2, 9)
    assert len(work.led) == 2


@pytest.mark.parametrize(
    ("incarnation", "registered_before", "how"),
    [(5, 0, LOST), (4, 0, LOST), (5, 2, LOST), (5, 0, LEAVES)],
    ids=["dead", "back", "registered-again", "leaving"],
)
def test_what_was_decided_in_the_last_moments_may_not_have_been_told(
    incarnation: int, registered_before: int, how: str
) -> None:
    traceparent = failover_of(1, incarnation, registered_before, how)
    (work,) = found(snapshot(1, 2), LastWrite(traceparent, LOST_EPOCH, BROKE_AT_MS - 100))
    assert (work.traceparent, work.broker_id) == (traceparent, 1)


def test_what_is_older_or_of_another_controller_was_told() -> None:
    traceparent = failover_of(1, 5)
    older = LastWrite(traceparent, LOST_EPOCH, BROKE_AT_MS - RECENT_MS - 1)
    another = LastWrite(traceparent, LOST_EPOCH - 1, BROKE_AT_MS)
    assert found(snapshot(1, 2), older, another) == ()


def test_a_topic_without_leaders_is_being_created_and_one_with_an_intent_deleted() -> None:
    fresh = Topic("fresh", "cd" * 16, ((1,),))
    deletions: dict[str, StoredDeletion | None] = {"flights": StoredDeletion("ab" * 16, 0)}
    read = snapshot(1, 2)
    read = ClusterSnapshot(read.brokers, (TOPIC, fresh), read.states, AdminZnodes(deletions=deletions))
    created, deleted = found(read)
    assert created.traceparent == root_traceparent(TOPIC_CREATION, CLUSTER, "cd" * 16)
    assert (created.topic, created.partition_count) == ("fresh", 1)
    assert deleted.traceparent == root_traceparent(TOPIC_DELETION, CLUSTER, "ab" * 16)


def test_a_broker_that_does_not_tell_its_incarnation_is_known_by_its_epoch() -> None:
    assert broker_parts(Broker(1, 77), LOST) == (1, "epoch", 77, LOST)
    assert broker_parts(Broker(1, 77, incarnation=3, registered_before=2), LOST) == (1, 3, 2, LOST)
