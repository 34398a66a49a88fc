"""Hightide's clients, as the loads use them."""

from collections.abc import Callable, Sequence
from typing import Final, Literal

import pyarrow as pa
from hightide import BulkDelivery, Consumer, Delivery, Producer

from hightide_bench.peers.loads.clients import (
    Acknowledged,
    BulkReader,
    BulkSender,
    Member,
    RecordReader,
    RecordSender,
)

#: What the documentation of the SDK advises for many records.
_LINGER_MS: Final = 5
_ARROW_CHUNK_BYTES: Final = 2 << 20
_READ_S: Final = 30.0
_RECORDS_A_POLL: Final = 10_000
_MEMBER_POLL_S: Final = 0.5


class HightideClients:
    """See Clients. With `arrow`, many records go as tables of Arrow."""

    def __init__(self, bootstrap: str, *, arrow: bool, compression: Literal["lz4"] | None) -> None:
        self._bootstrap, self._arrow, self._compression = bootstrap, arrow, compression

    def bulk_sender(self, topic: str, values: Sequence[bytes]) -> BulkSender:
        """Make a producer with acks=all that writes each record once."""
        producer = Producer(self._bootstrap, acks="all", linger_ms=_LINGER_MS, compression=self._compression)
        return (_ArrowSender if self._arrow else _RowSender)(producer, topic, values)

    def bulk_reader(self, topic: str, partitions: int) -> BulkReader:
        """Make a consumer of all partitions."""
        consumer = Consumer(self._bootstrap, topics=[topic])
        return (_ArrowReader if self._arrow else _RowReader)(consumer)

    def record_sender(self) -> RecordSender:
        """Make a producer with acks=all and without linger."""
        return _RecordSender(self._bootstrap)

    def record_reader(self, topic: str, partitions: int) -> RecordReader:
        """Make a consumer that stands at the end of all partitions."""
        return _RecordReader(self._bootstrap, topic)

    def member(self, topic: str, group: str, changed: Callable[[], None]) -> Member:
        """Make a member of a group."""
        return _Member(self._bootstrap, topic, group, changed)


def _told(acknowledged: Acknowledged) -> Callable[[Delivery | BulkDelivery], None]:
    def tell(delivery: Delivery | BulkDelivery) -> None:
        error = delivery.exception(0)
        acknowledged(None if error is None else str(error))

    return tell


class _RowSender:
    """send(), record by record."""

    def __init__(self, producer: Producer, topic: str, values: Sequence[bytes]) -> None:
        self._producer, self._topic, self._values = producer, topic, values

    def send_all(self, acknowledged: Acknowledged) -> int:
        send, topic = self._producer.send, self._topic
        for value in self._values:
            delivery = send(topic, value)
        delivery.add_done_callback(_told(acknowledged))
        return len(self._values)

    def flush(self) -> None:
        self._producer.flush()


class _ArrowSender:
    """send_arrow(), a chunk of 2 MiB each time, or what the values are if that is less."""

    def __init__(self, producer: Producer, topic: str, values: Sequence[bytes]) -> None:
        self._producer, self._topic = producer, topic
        self._rows = max(_ARROW_CHUNK_BYTES // len(values[0]), 1)
        column = [values[number % len(values)] for number in range(self._rows)]
        self._chunk = pa.record_batch({"value": pa.array(column, pa.binary())})

    def send_all(self, acknowledged: Acknowledged) -> int:
        self._producer.send_arrow(self._topic, self._chunk).add_done_callback(_told(acknowledged))
        return self._rows

    def flush(self) -> None:
        self._producer.flush()


class _RowReader:
    """poll(), all values touched."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def rewind(self) -> None:
        self._consumer.seek_to_beginning()

    def read(self) -> tuple[int, int]:
        records = self._consumer.poll(timeout_s=_READ_S, max_records=_RECORDS_A_POLL)
        return len(records), sum([len(each.value or b"") for each in records])


class _ArrowReader:
    """poll_arrow(), the column of values touched."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def rewind(self) -> None:
        self._consumer.seek_to_beginning()

    def read(self) -> tuple[int, int]:
        batch = self._consumer.poll_arrow(timeout_s=_READ_S)
        return batch.num_rows, batch.column("value").nbytes if batch.num_rows else 0


class _RecordSender:
    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(bootstrap, acks="all", linger_ms=0)

    def send(self, topic: str, value: bytes, partition: int | None = None) -> None:
        self._producer.send(topic, value, partition=partition)

    def send_acknowledged(self, topic: str, value: bytes, partition: int, acknowledged: Acknowledged) -> None:
        self._producer.send(topic, value, partition=partition).add_done_callback(_told(acknowledged))

    def flush(self) -> None:
        self._producer.flush()


class _RecordReader:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(bootstrap, topics=[topic])
        self._consumer.seek_to_end()
        # What is sent before a position is known would not be read.
        for partition in self._consumer.assignment:
            self._consumer.position(partition)

    def poll(self, timeout_s: float) -> Sequence[bytes]:
        return [each.value or b"" for each in self._consumer.poll(timeout_s=timeout_s)]


class _Member:
    def __init__(self, bootstrap: str, topic: str, group: str, changed: Callable[[], None]) -> None:
        def told(*_: object) -> None:
            changed()

        self._consumer = Consumer(
            bootstrap,
            group=group,
            topics=[topic],
            auto_commit=False,
            on_assign=told,
            on_revoke=told,
            on_lost=told,
        )

    def poll(self) -> None:
        self._consumer.poll(timeout_s=_MEMBER_POLL_S)

    def assignment(self) -> list[int]:
        return sorted(each.partition for each in self._consumer.assignment)

    def leave(self) -> None:
        self._consumer.close()
