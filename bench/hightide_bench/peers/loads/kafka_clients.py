"""Apache Kafka's clients (confluent-kafka, which is librdkafka), as the loads use them."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from hightide_bench.peers.loads.clients import (
    Acknowledged,
    BulkReader,
    BulkSender,
    LoadError,
    Member,
    RecordReader,
    RecordSender,
)

#: Batches as large as those of Hightide, which topics must allow (`kafka_cluster.py`), and a queue that a
#: fast sender does not fill at once.
PRODUCER_TUNED: Final[Mapping[str, int]] = {
    "linger.ms": 10,
    "batch.size": 2_000_000,
    "message.max.bytes": 4_000_000,
    "batch.num.messages": 100_000,
    "queue.buffering.max.messages": 1_000_000,
    "sticky.partitioning.linger.ms": 10,
}
#: Large fetches, far ahead of the reader.
CONSUMER_TUNED: Final[Mapping[str, int]] = {
    "fetch.message.max.bytes": 4 << 20,
    "queued.max.messages.kbytes": 1 << 18,
    "queued.min.messages": 1_000_000,
}
#: Groups as the protocol of KIP-848 runs them (tuned), and as clients do by default.
MEMBER_TUNED: Final[Mapping[str, str | int]] = {"group.protocol": "consumer"}
MEMBER_DEFAULT: Final[Mapping[str, str | int]] = {
    "partition.assignment.strategy": "cooperative-sticky",
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 3_000,
}
_READ_S: Final = 30.0
_FLUSH_S: Final = 60.0
_FULL_S: Final = 0.01
_SERVE_S: Final = 0.05
_RECORDS_A_READ: Final = 10_000
_MEMBER_POLL_S: Final = 0.5


class KafkaClients:
    """See Clients. `tuned`: with the settings above; otherwise with librdkafka's defaults."""

    def __init__(self, bootstrap: str, *, tuned: bool, compression: str | None) -> None:
        # Lost connections are expected when brokers are killed; librdkafka would report each on stderr.
        self._common: dict[str, str | int | bool] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._tuned = tuned
        self._compression = {} if compression is None else {"compression.type": compression}

    def bulk_sender(self, topic: str, values: Sequence[bytes]) -> BulkSender:
        """Make a producer with acks=all that writes each record once."""
        tuning = PRODUCER_TUNED if self._tuned else {}
        return _BulkSender(self._producer({**tuning, **self._compression}), topic, values)

    def bulk_reader(self, topic: str, partitions: int) -> BulkReader:
        """Make a consumer of all partitions."""
        return _BulkReader(self._consumer(CONSUMER_TUNED if self._tuned else {}), topic, partitions)

    def record_sender(self) -> RecordSender:
        """Make a producer with acks=all and without linger."""
        return _RecordSender(self._producer({"linger.ms": 0}))

    def record_reader(self, topic: str, partitions: int) -> RecordReader:
        """Make a consumer that stands at the end of all partitions."""
        return _RecordReader(self._consumer({}), topic, partitions)

    def member(self, topic: str, group: str, changed: Callable[[], None]) -> Member:
        """Make a member of a group."""
        settings = MEMBER_TUNED if self._tuned else MEMBER_DEFAULT
        return _Member(self._consumer({**settings, "group.id": group}), topic, changed)

    def _producer(self, properties: Mapping[str, str | int]) -> Producer:
        return Producer({**self._common, "acks": "all", "enable.idempotence": True, **properties})

    def _consumer(self, properties: Mapping[str, str | int]) -> Consumer:
        return Consumer(
            {
                **self._common,
                "group.id": "peers",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **properties,
            }
        )


def _told(acknowledged: Acknowledged) -> Callable[[KafkaError | None, Message], None]:
    def tell(error: KafkaError | None, _: Message) -> None:
        acknowledged(None if error is None else str(error))

    return tell


class _BulkSender:
    def __init__(self, producer: Producer, topic: str, values: Sequence[bytes]) -> None:
        self._producer, self._topic = producer, topic
        self._values, self._last = values[:-1], values[-1]

    def send_all(self, acknowledged: Acknowledged) -> int:
        produce, poll, topic = self._producer.produce, self._producer.poll, self._topic
        for value in self._values:
            while True:
                try:
                    produce(topic, value)
                    break
                except BufferError:
                    poll(_FULL_S)
        told = _told(acknowledged)
        while True:
            try:
                produce(topic, self._last, on_delivery=told)
                break
            except BufferError:
                poll(_FULL_S)
        poll(0)
        return len(self._values) + 1

    def flush(self) -> None:
        _flush(self._producer)


def _flush(producer: Producer) -> None:
    left = producer.flush(_FLUSH_S)
    if left:
        raise LoadError(f"{left} records were not acknowledged within {_FLUSH_S:.0f} s")


class _BulkReader:
    def __init__(self, consumer: Consumer, topic: str, partitions: int) -> None:
        self._consumer = consumer
        self._beginning = [TopicPartition(topic, number, 0) for number in range(partitions)]

    def rewind(self) -> None:
        self._consumer.assign(self._beginning)

    def read(self) -> tuple[int, int]:
        messages = self._consumer.consume(_RECORDS_A_READ, _READ_S)
        return len(messages), sum([len(each.value() or b"") for each in messages])


class _RecordSender:
    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._ended = threading.Event()
        self._server: threading.Thread | None = None

    def send(self, topic: str, value: bytes, partition: int | None = None) -> None:
        self._producer.produce(topic, value, partition=-1 if partition is None else partition)
        self._producer.poll(0)

    def send_acknowledged(self, topic: str, value: bytes, partition: int, acknowledged: Acknowledged) -> None:
        if self._server is None:
            self._server = threading.Thread(target=self._serve, daemon=True)
            self._server.start()
        try:
            self._producer.produce(topic, value, partition=partition, on_delivery=_told(acknowledged))
        except BufferError:
            acknowledged("the queue of the producer is full")

    def flush(self) -> None:
        self._producer.flush(_FLUSH_S)
        self._ended.set()

    def _serve(self) -> None:
        while not self._ended.is_set():
            self._producer.poll(_SERVE_S)


class _RecordReader:
    def __init__(self, consumer: Consumer, topic: str, partitions: int) -> None:
        self._consumer = consumer
        ends = []
        for number in range(partitions):
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_READ_S)
            ends.append(TopicPartition(topic, number, end))
        consumer.assign(ends)

    def poll(self, timeout_s: float) -> Sequence[bytes]:
        message = self._consumer.poll(timeout_s)
        if message is None:
            return []
        if message.error():
            raise LoadError(f"the consumer failed: {message.error()}")
        return [message.value() or b""]


class _Member:
    def __init__(self, consumer: Consumer, topic: str, changed: Callable[[], None]) -> None:
        def told(*_: object) -> None:
            changed()

        self._consumer = consumer
        consumer.subscribe([topic], on_assign=told, on_revoke=told, on_lost=told)

    def poll(self) -> None:
        if self._consumer.poll(_MEMBER_POLL_S) is None:
            return
        # An error is polled at once, again and again; it is not to keep a processor busy.
        time.sleep(_FULL_S)

    def assignment(self) -> list[int]:
        return sorted(each.partition for each in self._consumer.assignment())

    def leave(self) -> None:
        self._consumer.close()
