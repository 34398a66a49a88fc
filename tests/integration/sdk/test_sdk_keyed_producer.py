"""A writer that begins again under its key meets what it wrote before, and goes on behind it."""

import asyncio
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hightide import Admin, DeliveredPiece, Producer, ProducerKey, RangeReader, TopicPartition, aio
from hightide.errors import FencedProducerEpochError, SequenceConflictError
from hightide_local.cluster import LocalCluster

pytestmark = pytest.mark.cluster

KEY = ProducerKey("spark/query", 0, 7)


@pytest.fixture
def admin(hightide_cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(hightide_cluster.bootstrap) as found:
        yield found


def rows(*values: bytes, timestamp_us: int | None = None) -> pa.RecordBatch:
    columns = {"value": pa.array(values, pa.binary())}
    if timestamp_us is not None:
        columns["timestamp"] = pa.array([timestamp_us] * len(values), pa.int64())
    return pa.RecordBatch.from_pydict(columns)


def test_a_writer_that_was_interrupted_finds_what_it_wrote_and_writes_the_rest(
    hightide_cluster: LocalCluster, hightide_topic: str, admin: Admin
) -> None:
    partition = TopicPartition(hightide_topic, 0)
    with Producer(hightide_cluster.bootstrap, key=KEY) as interrupted:
        interrupted.send_arrow(hightide_topic, rows(b"a", b"b"), partition=0).result(30)
        with Producer(hightide_cluster.bootstrap) as other:
            other.send(hightide_topic, b"of another writer", partition=0).result(30)
        interrupted.send_arrow(hightide_topic, rows(b"c"), partition=0).result(30)
    with Producer(hightide_cluster.bootstrap, key=KEY) as again:
        refused = again.send_arrow(hightide_topic, rows(b"b", b"a", b"c", b"d"), partition=0)
        assert isinstance(refused.exception(30), SequenceConflictError)
        (state,) = admin.describe_producers([partition], [KEY.producer_id])[partition]
        assert (state.producer_epoch, state.first_sequence, state.next_sequence) == (7, 0, 3)
        found: list[bytes] = []
        topic_id = admin.describe_topics([hightide_topic])[0].topic_id
        with RangeReader(hightide_cluster.bootstrap) as reader:
            for batch in reader.read(hightide_topic, topic_id, 0, state.first_offset, state.end_offset):
                if batch.header.producer_id == KEY.producer_id:
                    found += batch.rows.column("value").to_pylist()
        assert found == [b"a", b"b", b"c"]
        again.go_on_at(hightide_topic, 0, state.next_sequence)
        rest = again.send_arrow(hightide_topic, rows(b"d"), partition=0)
        assert rest.exception(30) is None
        assert rest.pieces() == (DeliveredPiece(1, state.end_offset),)


def test_the_very_same_batch_is_acknowledged_where_it_is_and_a_newer_version_fences(
    hightide_cluster: LocalCluster, hightide_topic: str
) -> None:
    same = rows(b"a", b"b", timestamp_us=5)
    with Producer(hightide_cluster.bootstrap, key=KEY) as first:
        first.send_arrow(hightide_topic, same, partition=0).result(30)
        with Producer(hightide_cluster.bootstrap, key=KEY) as again:
            repeated = again.send_arrow(hightide_topic, same, partition=0)
            assert repeated.exception(30) is None
            assert repeated.pieces() == (DeliveredPiece(2, 0),)
        with Producer(hightide_cluster.bootstrap, key=ProducerKey(KEY.name, KEY.part, 8)) as newer:
            assert newer.send(hightide_topic, b"c", partition=0).result(30).offset == 2
        late = first.send(hightide_topic, b"d", partition=0)
        assert isinstance(late.exception(30), FencedProducerEpochError)


def test_asyncio_does_the_same(hightide_cluster: LocalCluster, hightide_topic: str) -> None:
    partition = TopicPartition(hightide_topic, 0)

    async def write() -> tuple[DeliveredPiece, ...]:
        bootstrap = hightide_cluster.bootstrap
        async with aio.Producer(bootstrap, key=KEY) as first:
            await (await first.send(hightide_topic, b"a", partition=0))
        async with aio.Producer(bootstrap, key=KEY) as again, aio.Admin(bootstrap) as admin:
            with pytest.raises(SequenceConflictError):
                await (await again.send_arrow(hightide_topic, rows(b"b"), partition=0))
            (state,) = (await admin.describe_producers([partition]))[partition]
            await again.go_on_at(hightide_topic, 0, state.next_sequence)
            rest = await again.send_arrow(hightide_topic, rows(b"b"), partition=0)
            await rest
            await admin.add_partitions(hightide_topic, 2)
            await (await again.send(hightide_topic, b"grown", partition=1))
            return rest.pieces()

    assert asyncio.run(write()) == (DeliveredPiece(1, 1),)


def test_a_partition_that_the_topic_got_a_moment_ago_is_written_to(
    hightide_cluster: LocalCluster, hightide_topic: str, admin: Admin
) -> None:
    with Producer(hightide_cluster.bootstrap) as producer:
        producer.send(hightide_topic, b"before", partition=0).result(30)
        admin.add_partitions(hightide_topic, 3)
        assert producer.send(hightide_topic, b"after", partition=2).result(30).partition == 2
