"""The SDK against a real cluster: what is sent is read, in order, by every way of reading."""

import asyncio
import queue
import subprocess
import sys
import uuid

import pyarrow as pa
import pytest
from hightide import (
    Admin,
    Consumer,
    ConsumerStatistics,
    Producer,
    ProducerStatistics,
    Record,
    RecordMetadata,
    TopicPartition,
    aio,
)
from hightide.errors import (
    DeliveryPendingError,
    InvalidConfigError,
    InvalidPartitionCountError,
    InvalidReplicationFactorError,
    InvalidTopicNameError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    TopicAlreadyExistsError,
    UnknownPartitionError,
    UnknownTopicError,
)
from hightide.producing.partitioner import KeyPartitioning, Partitioner
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from hightide_local.processes.network import CLIENTS

pytestmark = pytest.mark.cluster

UNTIL_S = 30.0


@pytest.fixture
def topic(hightide_cluster: LocalCluster) -> str:
    name = f"sdk-{uuid.uuid4().hex}"
    with Admin(hightide_cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=3, replication_factor=3)
    return name


def values_by_key(records: list[Record]) -> dict[bytes | None, list[int]]:
    found: dict[bytes | None, list[int]] = {}
    for record in records:
        assert record.value is not None
        found.setdefault(record.key, []).append(int(record.value))
    return found


def test_records_come_back_in_order_per_key(hightide_cluster: LocalCluster, topic: str) -> None:
    with Producer(hightide_cluster.bootstrap) as producer:
        deliveries = [producer.send(topic, b"%d" % at, b"k%d" % (at % 7)) for at in range(5_000)]
    assert all(delivery.result().offset >= 0 for delivery in deliveries)
    with Consumer(hightide_cluster.bootstrap, topics=topic) as consumer:
        found = values_by_key(list(consumer.read_to_end()))
    assert found == {b"k%d" % key: list(range(key, 5_000, 7)) for key in range(7)}


def test_clients_tell_figures_of_what_they_did(hightide_cluster: LocalCluster, topic: str) -> None:
    sent, read = queue.SimpleQueue[ProducerStatistics](), queue.SimpleQueue[ConsumerStatistics]()
    with Producer(hightide_cluster.bootstrap, on_statistics=sent.put, statistics_interval_ms=100) as producer:
        for number in range(30):
            producer.send(topic, b"x", partition=number % 3)
        producer.flush()
        while (told := sent.get(timeout=UNTIL_S)).acknowledged_records < 30:
            pass
    assert (told.failed_records, told.undelivered_records, told.buffered_bytes) == (0, 0, 0)
    assert sum(each.calls for each in told.brokers.values()) >= 3
    every = {"on_statistics": read.put, "statistics_interval_ms": 100}
    with Consumer(hightide_cluster.bootstrap, topics=topic, group=topic, **every) as consumer:  # type: ignore[arg-type]
        records: list[Record] = []
        while len(records) < 30:
            records += consumer.poll()
        consumer.commit()
        figures = read.get(timeout=UNTIL_S)
        while [each.position for each in figures.partitions.values()] != [10] * 3:
            figures = read.get(timeout=UNTIL_S)
    assert (figures.fetched_records, figures.buffered_bytes) == (30, 0)
    assert [(each.position, each.lag) for each in figures.partitions.values()] == [(10, 0)] * 3
    assert figures.group is not None
    assert (figures.group.group, figures.group.state) == (topic, "member")


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_everything_a_record_can_hold_survives(
    hightide_cluster: LocalCluster, topic: str, compression: str | None
) -> None:
    with Producer(hightide_cluster.bootstrap, compression=compression) as producer:  # type: ignore[arg-type]
        producer.send(topic, None, b"tombstone", partition=1, timestamp_us=7)
        producer.send(topic, b"", None, partition=1, timestamp_us=8)
        producer.send(topic, b"v", b"k", partition=1, timestamp_us=9, headers=[("h", b"1"), ("h", b"2")])
    with Consumer(hightide_cluster.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 1)])
        assert list(consumer.read_to_end()) == [
            Record(topic, 1, 0, 7, b"tombstone", None, ()),
            Record(topic, 1, 1, 8, None, b"", ()),
            Record(topic, 1, 2, 9, b"k", b"v", (("h", b"1"), ("h", b"2"))),
        ]


def test_arrow_goes_in_and_comes_out(hightide_cluster: LocalCluster, topic: str) -> None:
    rows = pa.table(
        {"key": [f"k{at % 11}" for at in range(20_000)], "value": [str(at) for at in range(20_000)]}
    )
    with Producer(hightide_cluster.bootstrap) as producer:
        placed = producer.send_arrow(topic, rows).result(UNTIL_S)
    assert sum(each.record_count for each in placed) == 20_000
    with Consumer(hightide_cluster.bootstrap, topics=topic) as consumer:
        batches: list[pa.RecordBatch] = []
        while sum(batch.num_rows for batch in batches) < 20_000:
            batches.append(consumer.poll_arrow())
    table = pa.Table.from_batches([batch for batch in batches if batch.num_rows])
    assert table.column_names == ["topic", "partition", "offset", "timestamp", "key", "value"]
    found: dict[bytes, list[int]] = {}
    for key, value in zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True):
        found.setdefault(key, []).append(int(value))
    assert found == {b"k%d" % key: list(range(key, 20_000, 11)) for key in range(11)}


def test_send_and_send_arrow_put_a_key_into_the_same_partition(
    hightide_cluster: LocalCluster, topic: str
) -> None:
    keys = [b"key-%d" % at for at in range(50)]
    with Producer(hightide_cluster.bootstrap) as producer:
        for key in keys:
            producer.send(topic, b"one", key)
        producer.send_arrow(topic, pa.table({"key": keys, "value": [b"two"] * len(keys)}))
    with Consumer(hightide_cluster.bootstrap, topics=topic) as consumer:
        places = {(record.key, record.partition) for record in consumer.read_to_end()}
    assert len(places) == len(keys)


@pytest.mark.parametrize("partitioner", ["murmur2", "crc32", lambda topic, key, count: len(key) % count])
def test_records_tables_and_tasks_agree_on_the_partition_of_a_key(
    hightide_cluster: LocalCluster, topic: str, partitioner: Partitioner
) -> None:
    keys = [b"%d" % 10**digits for digits in range(9)]
    with Producer(hightide_cluster.bootstrap, partitioner=partitioner) as producer:
        sent = {key: producer.send(topic, b"", key) for key in keys}
        producer.send_arrow(topic, pa.table({"key": keys, "value": [b""] * len(keys)}))
        places = {key: delivery.result(30).partition for key, delivery in sent.items()}

    async def again() -> None:
        async with aio.Producer(hightide_cluster.bootstrap, partitioner=partitioner) as producer:
            for key in keys:
                assert (await producer.send_and_wait(topic, b"", key)).partition == places[key]

    asyncio.run(again())
    chosen = KeyPartitioning(partitioner)
    assert places == {key: chosen.partition_of(topic, key, 3) for key in keys}
    assert len(set(places.values())) > 1
    with Consumer(hightide_cluster.bootstrap, topics=topic) as consumer:
        read = [(record.key, record.partition) for record in consumer.read_to_end()]
    assert len(read) == 3 * len(keys)
    assert set(read) == set(places.items())


def test_seeking_by_offset_and_by_time(hightide_cluster: LocalCluster, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    # All in one batch, so that the first poll has three of them.
    with Producer(hightide_cluster.bootstrap, linger_ms=60_000) as producer:
        for at in range(100):
            producer.send(topic, b"%d" % at, partition=0, timestamp_us=1_000_000 + at)
    with Consumer(hightide_cluster.bootstrap) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 42)
        assert consumer.position(partition) == 42
        assert next(iter(consumer)).offset == 42
        assert consumer.position(partition) == 43
        consumer.seek_to_timestamp(partition, 1_000_070)
        assert next(iter(consumer)).offset == 70
        consumer.seek_to_end()
        assert consumer.position(partition) == 100
        consumer.seek_to_beginning(partition)
        assert [record.offset for record in consumer.poll(timeout_s=UNTIL_S, max_records=3)] == [0, 1, 2]
        assert consumer.offsets_for_times({partition: 1_000_050}) == {partition: 50}
        assert consumer.offsets_for_times({partition: 10**15}) == {partition: None}
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 100}


def test_an_offset_beyond_the_end_is_an_error_when_asked_for(
    hightide_cluster: LocalCluster, topic: str
) -> None:
    with Consumer(hightide_cluster.bootstrap, offset_reset="error") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 1_000)
        with pytest.raises(OffsetOutOfRangeError):
            consumer.poll(timeout_s=UNTIL_S)


def test_what_is_new_is_read_while_waiting(hightide_cluster: LocalCluster, topic: str) -> None:
    with (
        Consumer(hightide_cluster.bootstrap, topics=topic) as consumer,
        Producer(hightide_cluster.bootstrap, linger_ms=0) as producer,
    ):
        assert consumer.poll(timeout_s=0.2) == []
        producer.send(topic, b"news")
        assert [record.value for record in consumer.poll(timeout_s=UNTIL_S)] == [b"news"]


def test_mistakes_are_told_with_a_type_of_their_own(hightide_cluster: LocalCluster, topic: str) -> None:
    with Admin(hightide_cluster.bootstrap) as admin:
        with pytest.raises(TopicAlreadyExistsError, match=topic):
            admin.create_topic(topic)
        with pytest.raises(InvalidTopicNameError):
            admin.create_topic("../x")
        with pytest.raises(InvalidPartitionCountError):
            admin.create_topic("other", partitions=0)
        with pytest.raises(InvalidReplicationFactorError):
            admin.create_topic("other", replication_factor=9)
        with pytest.raises(InvalidConfigError):
            admin.create_topic("other", configs={"retention.msec": "1"})
        with pytest.raises(UnknownTopicError, match="not-there"):
            admin.describe_topics(["not-there"])
        # As one broker knows them, which hears of a topic after its leaders.
        wait_until("the topic is listed", lambda: topic in admin.list_topics(), UNTIL_S)
        assert admin.describe_cluster().cluster_id
    with Producer(hightide_cluster.bootstrap) as producer:
        with pytest.raises(UnknownTopicError, match="not-there"):
            producer.send("not-there", b"v")
        with pytest.raises(UnknownPartitionError, match="0 to 2, not 3"):
            producer.send(topic, b"v", partition=3)
        with pytest.raises(RecordTooLargeError):
            producer.send(topic, bytes(2 << 20))
        assert producer.send(topic, b"fine").result(UNTIL_S).offset == 0


def test_a_large_batch_for_a_topic_with_a_small_limit_arrives_in_parts(
    hightide_cluster: LocalCluster,
) -> None:
    name = f"sdk-{uuid.uuid4().hex}"
    with Admin(hightide_cluster.bootstrap) as admin:
        admin.create_topic(name, 1, 3, configs={"max.message.bytes": "20000"})
    with Producer(hightide_cluster.bootstrap) as producer:
        deliveries = [producer.send(name, b"%04d" % at + bytes(1_000)) for at in range(200)]
    assert [delivery.result().offset for delivery in deliveries] == list(range(200))


def test_acks_0_and_1_deliver_too(hightide_cluster: LocalCluster, topic: str) -> None:
    for acks in (0, 1):
        with Producer(hightide_cluster.bootstrap, acks=acks) as producer:
            producer.send(topic, b"%d" % acks, partition=0).result(UNTIL_S)
    with Consumer(hightide_cluster.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = [consumer.poll(timeout_s=UNTIL_S, max_records=1)[0].value for _ in range(2)]
    assert found == [b"0", b"1"]


def test_a_result_that_is_not_there_yet_is_a_timeout(hightide_cluster: LocalCluster, topic: str) -> None:
    with Producer(hightide_cluster.bootstrap) as producer:
        producer.send(topic, b"before", partition=0).result(UNTIL_S)
        # Otherwise it may be there, however soon it is asked for.
        hightide_cluster.partition([f"broker-{each}" for each in hightide_cluster.brokers], CLIENTS)
        delivery = producer.send(topic, b"v", partition=0)
        with pytest.raises(DeliveryPendingError):
            delivery.result(timeout_s=0)
        hightide_cluster.heal()
        assert delivery.result(UNTIL_S).offset == 1


def test_who_sends_one_record_and_waits_gets_its_place(hightide_cluster: LocalCluster, topic: str) -> None:
    async def again() -> RecordMetadata:
        async with aio.Producer(hightide_cluster.bootstrap, linger_ms=60_000) as producer:
            return await producer.send_and_wait(topic, b"two", b"k", headers=[("h", b"1")])

    with Producer(hightide_cluster.bootstrap, linger_ms=60_000) as producer:
        first = producer.send_and_wait(topic, b"one", b"k")
    second = asyncio.run(again())
    assert (first.offset, second.offset, first.partition) == (0, 1, second.partition)
    with pytest.raises(UnknownTopicError), Producer(hightide_cluster.bootstrap) as producer:
        producer.send_and_wait("nowhere", b"three")


def test_a_program_that_does_not_close_still_delivers(hightide_cluster: LocalCluster, topic: str) -> None:
    program = (
        "import sys; from hightide import Producer; from hightide.transport import at_exit;"
        "at_exit.LAST_MOMENT_S = 30.0;"
        "producer = Producer(sys.argv[1], linger_ms=60_000);"
        "producer.send(sys.argv[2], b'last words')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, hightide_cluster.bootstrap, topic],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    with Consumer(hightide_cluster.bootstrap, topics=topic) as consumer:
        assert [record.value for record in consumer.poll(timeout_s=UNTIL_S)] == [b"last words"]


def test_a_program_that_cannot_deliver_says_how_many_records_were_lost() -> None:
    program = (
        "from hightide import Producer; from hightide.transport import at_exit; at_exit.LAST_MOMENT_S = 0.2\n"
        "from hightide.v1.broker_service_pb2 import GetMetadataResponse as G\n"
        "producer = Producer('127.0.0.1:1', linger_ms=60_000)\n"
        "answer = G(topics=[dict(topic='t', topic_id=bytes(16), partitions=[dict(leader=-1)])])\n"
        "producer._core.cluster.update(answer)\n"
        "[producer.send('t', b'v') for _ in range(3)]\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "3 records were not delivered" in done.stderr


def test_asyncio_does_the_same(hightide_cluster: LocalCluster, topic: str) -> None:
    async def round_trip() -> list[Record]:
        async with aio.Producer(hightide_cluster.bootstrap) as producer:
            deliveries = [await producer.send(topic, b"%d" % at, b"k") for at in range(1_000)]
            placed = [await delivery for delivery in deliveries]
            assert [each.offset for each in placed] == list(range(1_000))
            await (await producer.send_arrow(topic, pa.table({"value": [b"1000"], "key": [b"k"]})))
        async with aio.Admin(hightide_cluster.bootstrap) as admin:
            (described,) = await admin.describe_topics([topic])
            assert len(described.partitions) == 3
            with pytest.raises(TopicAlreadyExistsError):
                await admin.create_topic(topic)
        async with aio.Consumer(hightide_cluster.bootstrap, topics=topic) as consumer:
            found = [record async for record in consumer.read_to_end()]
            await consumer.seek_to_beginning()
            rows = await consumer.poll_arrow(timeout_s=UNTIL_S)
            assert rows.num_rows > 0
        return found

    assert values_by_key(asyncio.run(round_trip())) == {b"k": list(range(1_001))}


def test_the_shared_cluster_has_consumer_groups(hightide_cluster: LocalCluster, topic: str) -> None:
    with Producer(hightide_cluster.bootstrap) as producer:
        producer.send(topic, b"for the group")
    with Consumer(hightide_cluster.bootstrap, topics=topic, group=f"{topic}-readers") as consumer:
        assert next(iter(consumer)).value == b"for the group"
