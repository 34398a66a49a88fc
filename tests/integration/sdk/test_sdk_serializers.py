"""Programs that send and read objects instead of bytes, on a real cluster."""

import asyncio
import json
import uuid

import pytest
from hightide import (
    Admin,
    Consumer,
    DeserializingConsumer,
    Producer,
    SerializingProducer,
    TopicPartition,
    aio,
)
from hightide.errors import DeserializationError, SerializationError
from hightide.serialization import JsonDeserializer, JsonSerializer, StringDeserializer, StringSerializer
from hightide.serialization.avro import AvroDeserializer, AvroSerializer
from hightide.serialization.schema_registry import InMemorySchemaRegistry
from hightide_local.cluster import LocalCluster

pytestmark = pytest.mark.cluster

FLIGHT = json.dumps({"type": "record", "name": "Flight", "fields": [{"name": "dest", "type": "string"}]})


@pytest.fixture
def topic(hightide_cluster: LocalCluster) -> str:
    name = f"objects-{uuid.uuid4().hex}"
    with Admin(hightide_cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=1, replication_factor=3)
    return name


def test_objects_go_in_and_come_out_and_can_be_committed(hightide_cluster: LocalCluster, topic: str) -> None:
    registry = InMemorySchemaRegistry()
    with SerializingProducer(
        Producer(hightide_cluster.bootstrap), key=StringSerializer(), value=AvroSerializer(registry, FLIGHT)
    ) as producer:
        place = producer.send_and_wait(topic, {"dest": "IAH"}, "N14228")
        producer.send(topic, None, "N14228")
        with pytest.raises(SerializationError, match=topic):
            producer.send(topic, {"origin": "EWR"}, "N14228")
    assert registry.subjects == {f"{topic}-value": [1]}
    group = f"objects-{uuid.uuid4().hex}"
    with DeserializingConsumer(
        Consumer(hightide_cluster.bootstrap, group=group, topics=topic, auto_commit=False),
        key=StringDeserializer(),
        value=AvroDeserializer(registry),
    ) as consumer:
        first, second = consumer.getone(), consumer.getone()
        assert (first.key, first.value, first.offset) == ("N14228", {"dest": "IAH"}, place.offset)
        assert (second.key, second.value) == ("N14228", None)
        assert consumer.commit(first) == {TopicPartition(topic, 0): place.offset + 1}


def test_a_record_that_cannot_be_read_stays_until_the_user_seeks(
    hightide_cluster: LocalCluster, topic: str
) -> None:
    with Producer(hightide_cluster.bootstrap) as producer:
        for value in (b"1", b"2", b"{", b"4"):
            producer.send(topic, value)
    partition = TopicPartition(topic, 0)
    with DeserializingConsumer(
        Consumer(hightide_cluster.bootstrap, topics=topic), key=bytes, value=JsonDeserializer()
    ) as consumer:
        assert [consumer.getone().value, consumer.getone().value] == [1, 2]
        for _ in range(2):
            with pytest.raises(DeserializationError, match=f"offset 2 of {topic}-0"):
                consumer.poll(60)
        assert consumer.consumer.position(partition) == 2
        consumer.consumer.seek(partition, 3)
        assert consumer.getone().value == 4
    with DeserializingConsumer(
        Consumer(hightide_cluster.bootstrap, topics=topic, on_corrupt_batch="skip"),
        key=bytes,
        value=JsonDeserializer(),
    ) as consumer:
        assert [record.value for record in consumer.read_to_end()] == [1, 2, 4]
        assert consumer.skipped_records() == {partition: 1}


def test_asyncio_does_the_same(hightide_cluster: LocalCluster, topic: str) -> None:
    async def scenario() -> None:
        async with aio.SerializingProducer(
            aio.Producer(hightide_cluster.bootstrap), key=bytes, value=JsonSerializer()
        ) as producer:
            for number in range(3):
                await producer.send(topic, {"number": number})
        async with aio.DeserializingConsumer(
            aio.Consumer(hightide_cluster.bootstrap, topics=topic), key=bytes, value=JsonDeserializer()
        ) as consumer:
            assert [record.value async for record in consumer.read_to_end()] == [
                {"number": 0},
                {"number": 1},
                {"number": 2},
            ]

    asyncio.run(scenario())
