"""Replicas are read where all have something to say, and each difference is told with its brokers."""

from dataclasses import replace

import pytest
from hightide.records import PartitionDescription, ReplicaDescription, TopicDescription, TopicPartition
from hightide_spark.pipelines.replica_comparison import Fingerprint, judge, plan_audit

TOPIC_ID = b"\x0f" * 16
TOPIC = TopicDescription("flights", TOPIC_ID, (PartitionDescription(0, 1, 5, (1, 2, 3), (1, 3)),))
LEADER = ReplicaDescription(TopicPartition("flights", 0), TOPIC_ID, 1, True, 5, 10, 120, 110, 5_000)
FOLLOWERS = (
    replace(LEADER, broker_id=2, is_leader=False, log_start_offset=0, high_watermark=100),
    replace(LEADER, broker_id=3, is_leader=False, log_start_offset=20, high_watermark=105),
)
BATCH = Fingerprint(record_count=5, leader_epoch=5, crc=0xABCD, content=b"\x01" * 16)


def test_all_replicas_are_read_between_the_highest_start_and_the_lowest_high_watermark() -> None:
    plan = plan_audit([TOPIC], [LEADER, *FOLLOWERS], {}, slice_offsets=50)
    assert [(each.broker_id, each.start, each.end) for each in plan.reads] == [
        (1, 20, 70), (2, 20, 70), (3, 20, 70), (1, 70, 100), (2, 70, 100), (3, 70, 100),
    ]  # fmt: skip
    assert (plan.partitions, plan.record_count, plan.unread) == (1, 80, ())


def test_a_replica_in_sync_will_soon_know_what_its_leader_has_committed() -> None:
    (partition,) = TOPIC.partitions
    in_sync = replace(TOPIC, partitions=(replace(partition, isr=(1, 2, 3)),))
    assert {each.end for each in plan_audit([in_sync], [LEADER, *FOLLOWERS], {}).reads} == {110}
    leaderless = replace(TOPIC, partitions=(replace(partition, leader=None),))
    assert {each.end for each in plan_audit([leaderless], [LEADER, *FOLLOWERS], {}).reads} == {100}


def test_a_replica_that_nobody_shows_is_told_and_does_not_keep_the_others_from_being_read() -> None:
    broken = replace(FOLLOWERS[1], storage_failed=True)
    plan = plan_audit([TOPIC], [LEADER, broken], {2: "deadline exceeded"})
    assert [each.broker_id for each in plan.reads] == [1]
    told = [each.sentence() for each in plan.unread]
    assert "flights-0 on broker 2" in told[0]
    assert "deadline exceeded" in told[0]
    assert "flights-0 on broker 3" in told[1]


def test_a_replica_of_a_topic_of_the_same_name_is_none_of_this_one() -> None:
    plan = plan_audit([TOPIC], [replace(LEADER, topic_id=b"\xee" * 16)], {})
    assert (plan.reads, len(plan.unread)) == ((), 3)


def test_identical_replicas_are_no_finding() -> None:
    assert judge("flights", 0, 7, {1: BATCH, 2: BATCH, 3: BATCH}, [1, 2, 3]) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"crc": 0x1}, "the crc differs: 0000abcd on broker 1, 3, 00000001 on broker 2"),
        ({"leader_epoch": 4}, "the leader epoch differs: 5 on broker 1, 3, 4 on broker 2"),
        ({"record_count": 6}, "the record count differs: 5 on broker 1, 3, 6 on broker 2"),
        (
            {"content": b"\x02" * 16},
            "the content differs: 010101010101 on broker 1, 3, 020202020202 on broker 2",
        ),
    ],
)
def test_each_difference_is_told_with_its_brokers(change: dict[str, int | bytes], told: str) -> None:
    altered = replace(BATCH, **change)  # type: ignore[arg-type]
    found = judge("flights", 0, 7, {1: BATCH, 2: altered, 3: BATCH}, [1, 2, 3])
    assert found is not None
    assert found.sentence() == f"flights-0 at offset 7: {told}"


def test_a_batch_that_only_some_have_is_told_unless_the_others_were_not_read() -> None:
    found = judge("flights", 0, 7, {1: BATCH}, [1, 2])
    assert found is not None
    assert found.sentence().endswith("a batch begins here on broker 1, and none on broker 2")
    assert judge("flights", 0, 7, {1: BATCH}, [1]) is None
