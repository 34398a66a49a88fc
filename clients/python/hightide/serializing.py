# Generated from aio/serializing.py by `make blocking`: change that one, not this.
"""A blocking producer that serializes what it sends, and a consumer that deserializes what it returns."""

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar, cast

from hightide.consumer import Consumer
from hightide.consumer_group.pending_commits import CommitCallback
from hightide.producer import Producer
from hightide.producing.delivery import Delivery
from hightide.record_stream import RecordStream
from hightide.records import DeserializedRecord, RecordMetadata, TopicPartition
from hightide.serialization.serializers import (
    AnyDeserializer,
    AnySerializer,
    Place,
    deserialized,
    serialized,
)

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class SerializingProducer(Generic[KeyT, ValueT]):
    """A `Producer` with a serializer for keys and one for values: functions of the object, or `Serializer`s.
    `bytes` as a serializer passes bytes on. None is not serialized. `producer` has all other methods; closing
    closes it."""

    def __init__(self, producer: Producer, *, key: AnySerializer[KeyT], value: AnySerializer[ValueT]) -> None:
        self.producer = producer
        self._key = key
        self._value = value

    def send(
        self,
        topic: str,
        value: ValueT | None = None,
        key: KeyT | None = None,
        *,
        partition: int | None = None,
        timestamp_us: int | None = None,
        headers: Sequence[tuple[str, bytes]] | None = None,
    ) -> Delivery:
        """Take one record, as Producer.send(). Raises SerializationError, SchemaRegistryError too."""
        return self.producer.send(
            topic,
            serialized(self._value, value, Place(topic, "value")),
            serialized(self._key, key, Place(topic, "key")),
            partition=partition,
            timestamp_us=timestamp_us,
            headers=headers,
        )

    def send_and_wait(
        self,
        topic: str,
        value: ValueT | None = None,
        key: KeyT | None = None,
        *,
        partition: int | None = None,
        timestamp_us: int | None = None,
        headers: Sequence[tuple[str, bytes]] | None = None,
    ) -> RecordMetadata:
        """Send one record at once, wait until it is acknowledged, and return its place. Raises as send(), and
        the error of the delivery."""
        delivery = self.send(
            topic, value, key, partition=partition, timestamp_us=timestamp_us, headers=headers
        )
        return delivery.result()

    def flush(self, timeout_s: float | None = None) -> None:
        """As Producer.flush()."""
        self.producer.flush(timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """As Producer.close()."""
        self.producer.close(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {self.producer!r}>"


class DeserializingConsumer(Generic[KeyT, ValueT]):
    """A `Consumer` with a deserializer for keys and one for values: functions of the bytes, or
    `Deserializer`s. `bytes` as a deserializer passes bytes on. `consumer` has all other methods; its records
    are deserialized too, and closing closes it.

    A record that cannot be read is an error, and no position passes it, until the user seeks beyond it. If
    the consumer has on_corrupt_batch="skip", it is left out, logged and counted (`skipped_records()`). A
    registry that does not answer is an error whatever the policy is.
    """

    def __init__(
        self, consumer: Consumer, *, key: AnyDeserializer[KeyT], value: AnyDeserializer[ValueT]
    ) -> None:
        self.consumer = consumer
        consumer.deserialize_by(deserialized(key, value))

    def poll(self, timeout_s: float = 1.0, max_records: int = 500) -> list[DeserializedRecord[KeyT, ValueT]]:
        """Return the next records, or an empty list if none came in time. Raises as Consumer.poll(), and
        DeserializationError, SchemaRegistryError once it is the next record that cannot be read."""
        found: object = self.consumer.poll(timeout_s, max_records)
        return cast(list[DeserializedRecord[KeyT, ValueT]], found)

    def getone(self) -> DeserializedRecord[KeyT, ValueT]:
        """Return the next record; wait for it as long as it takes. Errors as of poll()."""
        found: object = self.consumer.getone()
        return cast(DeserializedRecord[KeyT, ValueT], found)

    def __iter__(self) -> Iterator[DeserializedRecord[KeyT, ValueT]]:
        """Yield every record, for ever; at the end, wait for new ones. Errors as of poll()."""
        for record in self.consumer:
            found: object = record
            yield cast(DeserializedRecord[KeyT, ValueT], found)

    def record_streams(self) -> tuple[RecordStream[DeserializedRecord[KeyT, ValueT]], ...]:
        """As Consumer.record_streams(). All threads that read a stream call the deserializers then."""
        found: object = self.consumer.record_streams()
        return cast(tuple[RecordStream[DeserializedRecord[KeyT, ValueT]], ...], found)

    def read_to_end(self) -> Iterator[DeserializedRecord[KeyT, ValueT]]:
        """Yield every record up to the end offsets at the start of the iteration, as
        Consumer.read_to_end()."""
        for record in self.consumer.read_to_end():
            found: object = record
            yield cast(DeserializedRecord[KeyT, ValueT], found)

    def commit(
        self,
        offsets: Mapping[TopicPartition, int] | DeserializedRecord[KeyT, ValueT] | None = None,
        *,
        metadata: str = "",
    ) -> dict[TopicPartition, int]:
        """As Consumer.commit()."""
        return self.consumer.commit(offsets, metadata=metadata)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int] | DeserializedRecord[KeyT, ValueT] | None = None,
        *,
        metadata: str = "",
        on_commit: CommitCallback | None = None,
    ) -> None:
        """As Consumer.commit_async()."""
        self.consumer.commit_async(offsets, metadata=metadata, on_commit=on_commit)

    def skipped_records(self) -> Mapping[TopicPartition, int]:
        """The number of records that were left out of each partition so far."""
        return self.consumer.skipped_records()

    def close(self) -> None:
        """As Consumer.close()."""
        self.consumer.close()

    def __enter__(self) -> Self:
        self.consumer.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A record whose processing raised is not settled: it is read again.
        self.consumer.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {self.consumer!r}>"
