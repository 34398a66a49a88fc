"""A batch that a leader takes and no reader can open, on a real cluster: readers fail on it, or go on."""

import asyncio
import subprocess
import sys
import uuid

import pytest
from adversary.batches import good_batch, poison
from adversary.raw_client import Answer
from adversary.target import Target
from hightide import Admin, Consumer, RangeReader, SkippedBatches, TopicPartition, aio
from hightide.errors import UnreadableBatchError
from hightide.v1.broker_service_pb2 import (
    ON_CORRUPT_BATCH_FAIL,
    ON_CORRUPT_BATCH_SKIP,
    ON_CORRUPT_BATCH_UNSPECIFIED,
    FetchRecordsRequest,
    FetchRecordsResponse,
    OnCorruptBatch,
    ProduceResponse,
)
from hightide_local.cluster import LocalCluster

pytestmark = pytest.mark.cluster

UNTIL_S = 30.0
LEFT_OUT = SkippedBatches(batch_count=1, record_count=2)


@pytest.fixture
def poisoned(hightide_cluster: LocalCluster) -> tuple[str, bytes]:
    """A topic whose offsets 3 and 4 nobody can read, and its id."""
    name = f"poisoned-{uuid.uuid4().hex}"
    with Admin(hightide_cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=1, replication_factor=3)
    target = Target.beside_others(hightide_cluster.bootstrap, name)
    good = good_batch(target.topic_id, 0, [b"one", b"two", b"three"])
    for batch in (good, poison(target.topic_id, 0), good):
        answer = target.send_produce(batch)
        assert answer.ok, answer
        (result,) = ProduceResponse.FromString(answer.body).partitions
        assert result.error_code == 0, "the door is to take it, or this shows nothing"
    return name, target.topic_id


def test_a_consumer_stops_at_it_and_goes_on_where_the_error_says(
    hightide_cluster: LocalCluster, poisoned: tuple[str, bytes]
) -> None:
    partition = TopicPartition(poisoned[0], 0)
    with Consumer(hightide_cluster.bootstrap, topics=poisoned[0]) as consumer:
        assert [record.offset for record in consumer.poll(timeout_s=UNTIL_S)] == [0, 1, 2]
        for _ in range(2):
            with pytest.raises(UnreadableBatchError) as raised:
                consumer.poll(timeout_s=UNTIL_S)
        assert consumer.position(partition) == 3
        consumer.seek(partition, raised.value.next_offset)
        assert [record.offset for record in consumer.poll(timeout_s=UNTIL_S)] == [5, 6, 7]


def test_a_consumer_that_is_told_to_skip_reads_all_that_can_be_read(
    hightide_cluster: LocalCluster, poisoned: tuple[str, bytes]
) -> None:
    partition = TopicPartition(poisoned[0], 0)
    with Consumer(hightide_cluster.bootstrap, topics=poisoned[0], on_corrupt_batch="skip") as consumer:
        assert [record.offset for record in consumer.read_to_end()] == [0, 1, 2, 5, 6, 7]
        assert consumer.skipped_batches() == {partition: LEFT_OUT}
        consumer.seek_to_beginning(partition)
        offsets: list[int] = []
        while len(offsets) < 6:
            offsets += consumer.poll_arrow(timeout_s=UNTIL_S).column("offset").to_pylist()
        assert offsets == [0, 1, 2, 5, 6, 7]


def test_so_does_a_consumer_of_an_event_loop(
    hightide_cluster: LocalCluster, poisoned: tuple[str, bytes]
) -> None:
    async def read() -> None:
        async with aio.Consumer(hightide_cluster.bootstrap, topics=poisoned[0]) as consumer:
            assert [record.offset for record in await consumer.poll(timeout_s=UNTIL_S)] == [0, 1, 2]
            with pytest.raises(UnreadableBatchError):
                await consumer.poll(timeout_s=UNTIL_S)
        async with aio.Consumer(
            hightide_cluster.bootstrap, topics=poisoned[0], on_corrupt_batch="skip"
        ) as consumer:
            assert [record.offset async for record in consumer.read_to_end()] == [0, 1, 2, 5, 6, 7]
            assert consumer.skipped_batches() == {TopicPartition(poisoned[0], 0): LEFT_OUT}

    asyncio.run(read())


def test_a_member_of_a_group_commits_what_is_behind_it(
    hightide_cluster: LocalCluster, poisoned: tuple[str, bytes]
) -> None:
    group, partition = f"g-{uuid.uuid4().hex}", TopicPartition(poisoned[0], 0)
    with Consumer(
        hightide_cluster.bootstrap, topics=poisoned[0], group=group, on_corrupt_batch="skip"
    ) as consumer:
        offsets: list[int] = []
        while len(offsets) < 6:
            offsets += [record.offset for record in consumer.poll(timeout_s=UNTIL_S)]
        assert offsets == [0, 1, 2, 5, 6, 7]
        assert consumer.commit() == {partition: 8}


def test_a_range_reader_fails_or_goes_on_as_it_is_told(
    hightide_cluster: LocalCluster, poisoned: tuple[str, bytes]
) -> None:
    name, topic_id = poisoned
    with RangeReader(hightide_cluster.bootstrap) as reader:
        with pytest.raises(UnreadableBatchError, match="offsets 3 to 4"):
            list(reader.read(name, topic_id, 0, 0, 8))
        found = list(reader.read(name, topic_id, 0, 0, 8, on_corrupt_batch="skip"))
        assert [(each.base_offset, each.rows.num_rows) for each in found] == [(0, 3), (5, 3)]
        assert list(reader.read(name, topic_id, 0, 3, 5, on_corrupt_batch="skip")) == []
        assert reader.skipped_batches == {TopicPartition(name, 0): SkippedBatches(2, 4)}


def test_the_command_line_stops_or_says_what_it_leaves_out(
    hightide_cluster: LocalCluster, poisoned: tuple[str, bytes]
) -> None:
    command = [
        sys.executable, "-m", "hightide_cli.main", "topic", "consume", poisoned[0],
        "--bootstrap", hightide_cluster.bootstrap, "--exit", "-f", "%o ",
    ]  # fmt: skip
    stopped = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert stopped.returncode != 0
    assert "seek to 5" in stopped.stderr
    skipping = [*command, "--on-corrupt-batch", "skip"]
    went_on = subprocess.run(skipping, capture_output=True, text=True, check=False, timeout=60)
    assert (went_on.returncode, went_on.stdout) == (0, "0 1 2 5 6 7 "), went_on.stderr
    assert "offsets 3 to 4" in went_on.stderr


def test_whoever_fetches_plain_records_has_the_same_choice(
    hightide_cluster: LocalCluster, poisoned: tuple[str, bytes]
) -> None:
    target = Target.beside_others(hightide_cluster.bootstrap, poisoned[0])

    def fetch(offset: int, policy: OnCorruptBatch.ValueType) -> Answer:
        request = FetchRecordsRequest(topic=poisoned[0], offset=offset, on_corrupt_batch=policy)
        return target.leader.send("/hightide.v1.BrokerService/FetchRecords", request)

    in_front = FetchRecordsResponse.FromString(fetch(0, ON_CORRUPT_BATCH_UNSPECIFIED).body)
    assert ([record.offset for record in in_front.records], in_front.next_offset) == ([0, 1, 2], 3)
    refused = fetch(3, ON_CORRUPT_BATCH_FAIL)
    assert refused.reason == "INVALID_BATCH"
    assert "offsets 3 to 4" in refused.message
    assert "fetch from 5" in refused.message
    behind = FetchRecordsResponse.FromString(fetch(0, ON_CORRUPT_BATCH_SKIP).body)
    assert [record.offset for record in behind.records] == [0, 1, 2, 5, 6, 7]
    assert (behind.skipped_batch_count, behind.skipped_record_count, behind.next_offset) == (1, 2, 8)
    assert fetch(0, 9).reason == "INVALID_REQUEST"  # type: ignore[arg-type]
