"""The partition of a record with a key: by a hash, or by a function of the user."""

import zlib

import pytest
from hightide import Producer, aio
from hightide.errors import InvalidArgumentError
from hightide.producing.partition_queue import TopicQueues
from hightide.producing.partitioner import KeyPartitioning, murmur2, partition_for_key


def topic_of(partitioning: KeyPartitioning, partition_count: int = 6) -> TopicQueues:
    return TopicQueues("flights", b"i" * 16, partition_count, 1 << 20, partitioning=partitioning)


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_kafkas_java_client(key: bytes, signed: int) -> None:
    """The values are those of Kafka's `UtilsTest.testMurmur2`."""
    assert murmur2(key) == signed & 0x7FFFFFFF


def test_each_name_is_its_hash_modulo_the_partitions() -> None:
    for key in (b"", b"N14228", b"x" * 1_000):
        assert KeyPartitioning("crc32c").partition_of("t", key, 6) == partition_for_key(key, 6)
        assert KeyPartitioning("murmur2").partition_of("t", key, 6) == murmur2(key) % 6
        assert KeyPartitioning("crc32").partition_of("t", key, 6) == zlib.crc32(key) % 6


def test_a_function_is_asked_with_topic_key_and_number_of_partitions() -> None:
    asked: list[tuple[str, bytes, int]] = []

    def last(topic: str, key: bytes, partition_count: int) -> int:
        asked.append((topic, key, partition_count))
        return partition_count - 1

    topic = topic_of(KeyPartitioning(last))
    queue = topic.queue_for(b"k", None)
    assert queue is topic.queues[5]
    topic.resize(8)
    assert topic.queue_for(b"k", None) is topic.queues[7]
    assert asked == [("flights", b"k", 6), ("flights", b"k", 8)]


def test_a_function_is_not_asked_without_a_key_or_with_a_partition() -> None:
    def never(topic: str, key: bytes, partition_count: int) -> int:
        raise AssertionError

    topic = topic_of(KeyPartitioning(never))
    assert topic.queue_for(None, None) is None
    assert topic.queue_for(b"k", 3) is topic.queues[3]


@pytest.mark.parametrize("chosen", [-1, 6, True, 1.0, "1", None])
def test_what_a_function_chooses_is_checked(chosen: object) -> None:
    topic = topic_of(KeyPartitioning(lambda *_: chosen))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"for key b'k' of topic flights.*partitions 0 to 5"):
        topic.queue_for(b"k", None)


@pytest.mark.parametrize("client", [Producer, aio.Producer])
@pytest.mark.parametrize("wrong", ["murmur3", None, 7])
def test_a_partitioner_that_does_not_exist_is_refused_with_those_that_do(client: type, wrong: object) -> None:
    with pytest.raises(InvalidArgumentError, match='"crc32c", "murmur2", "crc32", or a function'):
        client(partitioner=wrong)
