"""Replicas are read where all have something to say, and each difference is told with its brokers."""

from dataclasses import replace

import pytest
from hightide.records import PartitionDescription, ReplicaDescription, TopicDescription, TopicPartition
from hightide_spark.pipelines.replica_comparison import AuditPlan, Fingerprint, judge, plan_audit

TOPIC_ID = b"\x0f" * 16
TOPIC = TopicDescription("flights", TOPIC_ID, (PartitionDescription(0, 1, 5, (1, 2, 3), (1, 3)),))
LEADER = ReplicaDescription(TopicPartition("flights", 0), TOPIC_ID, 1, True, 5, 10, 120, 110, 5_000)
FOLLOWERS = (
    replace(LEADER, broker_id=2, is_leader=False, log_start_offset=0, high_watermark=100),
    replace(LEADER, broker_id=3, is_leader=False, log_start_offset=20, high_watermark=105),
)
BATCH = Fingerprint(record_count=5, leader_epoch=5, crc=0xABCD, content=b"\x01" * 16)


def with_isr(*broker_ids: int) -> TopicDescription:
    (partition,) = TOPIC.partitions
    return replace(TOPIC, partitions=(replace(partition, isr=broker_ids),))


def reads(plan: AuditPlan) -> list[tuple[int, int, int, int]]:
    return [(each.broker_id, each.start, each.end, each.replicas) for each in plan.reads]


def test_replicas_in_sync_are_read_from_the_highest_start_to_what_the_leader_has_committed() -> None:
    """A replica in sync will soon know what its leader has committed."""
    plan = plan_audit([with_isr(1, 2, 3)], [LEADER, *FOLLOWERS], {}, slice_offsets=50)
    assert reads(plan) == [
        (1, 20, 70, 3), (2, 20, 70, 3), (3, 20, 70, 3), (1, 70, 110, 3), (2, 70, 110, 3), (3, 70, 110, 3),
    ]  # fmt: skip
    assert (plan.partitions, plan.record_count, plan.unread) == (1, 90, ())


def test_a_replica_that_lags_is_compared_as_far_as_it_knows_and_told_from_there_on() -> None:
    plan = plan_audit([with_isr(1, 3)], [LEADER, *FOLLOWERS], {})
    assert reads(plan) == [
        (1, 20, 100, 3),
        (2, 20, 100, 3),
        (3, 20, 100, 3),
        (1, 100, 110, 2),
        (3, 100, 110, 2),
    ]
    (told,) = plan.unread
    assert told.sentence().startswith(
        "flights-0 on broker 2: not compared from offset 100 on: it lags behind"
    )


def test_a_replica_out_of_sync_does_not_keep_the_others_from_being_compared() -> None:
    empty = replace(FOLLOWERS[0], high_watermark=0)
    plan = plan_audit([with_isr(1, 3)], [LEADER, empty, FOLLOWERS[1]], {})
    assert reads(plan) == [(1, 20, 110, 2), (3, 20, 110, 2)]
    assert [(each.broker_id, each.offset) for each in plan.unread] == [(2, 20)]
    begins_late = replace(FOLLOWERS[0], log_start_offset=60, high_watermark=110)
    plan = plan_audit([with_isr(1, 3)], [LEADER, begins_late, FOLLOWERS[1]], {})
    assert reads(plan)[:3] == [(1, 20, 60, 2), (3, 20, 60, 2), (1, 60, 110, 3)]
    (told,) = plan.unread
    assert "on broker 2: not compared from offset 20 on: its log begins at 60" in told.sentence()


def test_without_a_leader_all_is_read_that_some_replica_knows_to_be_committed() -> None:
    (partition,) = TOPIC.partitions
    leaderless = replace(TOPIC, partitions=(replace(partition, leader=None, isr=(3,)),))
    plan = plan_audit([leaderless], [LEADER, *FOLLOWERS], {})
    assert {(each.broker_id, each.offset) for each in plan.unread} == {(2, 100), (3, 105)}
    assert plan.record_count == 90


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
