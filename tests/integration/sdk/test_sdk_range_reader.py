"""Ranges are read exactly, whoever leads or dies; and what is not there any more is told for what it is."""

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa
import pytest
from hightide import Admin, Producer, RangeBatch, RangeReader, TopicDescription
from hightide.errors import (
    ClosedError,
    RangeDeletedError,
    TopicRecreatedError,
    UnknownPartitionError,
    UnknownTopicError,
)
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until

pytestmark = pytest.mark.cluster

ROWS = 4_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    deleting_soon = ("--retention-check-interval-ms", "100")
    with LocalCluster(tmp_path_factory.mktemp("ranges"), broker_arguments=deleting_soon) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap) as found:
        yield found


@pytest.fixture
def reader(cluster: LocalCluster) -> Iterator[RangeReader]:
    """One whose fetches are small, so that there are many."""
    with RangeReader(cluster.bootstrap, fetch_max_bytes=1 << 14) as found:
        yield found


def write(cluster: LocalCluster, topic: str, count: int = ROWS) -> None:
    """Row i has the value b"i", filled up to 100 bytes."""
    values = pa.array([b"%-100d" % at for at in range(count)], pa.binary())
    with Producer(cluster.bootstrap, batch_bytes_max=1 << 13) as producer:
        producer.send_arrow(topic, pa.table({"value": values}), partition=0).result(60)


def numbers(batches: Iterator[RangeBatch]) -> list[int]:
    found: list[int] = []
    for batch in batches:
        values = [int(value) for value in batch.rows.column("value").to_pylist()]
        assert values[0] == batch.base_offset
        found += values
    return found


def test_a_range_is_read_on_when_its_leader_is_killed(
    cluster: LocalCluster, admin: Admin, reader: RangeReader
) -> None:
    topic = admin.create_topic("killed", 1, 3, configs={"min.insync.replicas": "2"})
    write(cluster, topic.name)
    batches = reader.read(topic.name, topic.topic_id, 0, 17, ROWS - 3)
    first = next(batches)
    (leading,) = admin.describe_topics([topic.name])[0].partitions
    cluster.kill(f"broker-{leading.leader}")
    try:
        assert numbers(chain([first], batches)) == list(range(17, ROWS - 3))
    finally:
        cluster.restart(f"broker-{leading.leader}")


def test_every_replica_gives_the_same_rows(cluster: LocalCluster, admin: Admin, reader: RangeReader) -> None:
    topic = admin.create_topic("replicated", 1, 3)
    write(cluster, topic.name, 100)
    for broker in cluster.brokers:
        assert numbers(reader.read(topic.name, topic.topic_id, 0, 10, 90, replica=broker)) == [*range(10, 90)]


def test_rows_that_retention_has_deleted_are_told_with_where_the_log_begins(
    cluster: LocalCluster, admin: Admin, reader: RangeReader
) -> None:
    few = {"segment.bytes": "20000", "retention.bytes": "40000"}
    topic = admin.create_topic("short", 1, 1, configs=few)
    write(cluster, topic.name)

    def start() -> int:
        (replica,) = admin.describe_replicas([topic.name]).replicas
        return replica.log_start_offset

    wait_until("retention deletes the first segments", start, 30)
    with pytest.raises(RangeDeletedError, match="the log begins at offset") as raised:
        numbers(reader.read(topic.name, topic.topic_id, 0, 0, ROWS))
    assert 0 < raised.value.log_start_offset <= start()


def test_a_topic_that_is_deleted_made_again_or_smaller_is_told_apart(
    cluster: LocalCluster, admin: Admin, reader: RangeReader
) -> None:
    def read(topic: TopicDescription, partition: int = 0) -> list[int]:
        return numbers(reader.read(topic.name, topic.topic_id, partition, 0, 10))

    old = admin.create_topic("again", 2, 3)
    write(cluster, old.name, 10)
    assert read(old) == list(range(10))
    admin.remove_partitions(old.name, 1)
    with pytest.raises(UnknownPartitionError, match=r"not 1|no partition 1"):
        read(old, 1)
    admin.delete_topic(old.name)
    with pytest.raises(UnknownTopicError, match="again"):
        read(old)
    new = admin.create_topic(old.name, 1, 3)
    with pytest.raises(TopicRecreatedError, match=new.topic_id.hex()):
        read(old)
    write(cluster, new.name, 10)
    assert read(new) == list(range(10))


def test_a_reader_that_is_closed_reads_no_more(
    cluster: LocalCluster, admin: Admin, reader: RangeReader
) -> None:
    topic = admin.create_topic("closed", 1, 1)
    write(cluster, topic.name)
    batches = reader.read(topic.name, topic.topic_id, 0, 0, ROWS)
    next(batches)
    reader.close()
    with pytest.raises(ClosedError):
        numbers(batches)
    with pytest.raises(ClosedError):
        reader.read(topic.name, topic.topic_id, 0, 0, ROWS)
