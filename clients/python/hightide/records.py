"""What the SDK hands out: records, and what is known of topics and of the cluster. All of it is immutable."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of one topic. Sorts by topic, then partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a consumer reads it. A value of None is a tombstone; None is not the same as b""."""

    topic: str
    partition: int
    offset: int
    timestamp_us: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def timestamp(self) -> datetime:
        """The record's timestamp as an aware datetime in UTC."""
        return _EPOCH + timedelta(microseconds=self.timestamp_us)


class _UnsealedRecord:
    """A Record while it is filled in. A frozen dataclass pays 150 ns a field for being frozen; this one has
    the same layout, so that its instances can become Records at the end."""

    __slots__ = ("topic", "partition", "offset", "timestamp_us", "key", "value", "headers")  # noqa: RUF023 - order

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp_us: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp_us = timestamp_us
        self.key = key
        self.value = value
        self.headers = headers


def records_of(
    topic: str,
    partition: int,
    first_offset: int,
    timestamps_us: Iterable[int],
    keys: Iterable[bytes | None],
    values: Iterable[bytes | None],
    headers: Iterable[Headers] | None,
) -> list[Record]:
    """Many Records with consecutive offsets, fast. Called by consumers for each batch."""
    made: list[Any] = []
    append = made.append
    offset = first_offset
    rows = zip(timestamps_us, keys, values, headers or repeat(()), strict=False)
    for timestamp_us, key, value, each in rows:
        record = _UnsealedRecord(topic, partition, offset, timestamp_us, key, value, each)
        record.__class__ = Record  # type: ignore[assignment]
        append(record)
        offset += 1
    return made


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where one record that was sent went. `offset` is -1 where the broker does not tell it: with acks=0, or
    where a retried batch proved to be appended already and too old for the broker to remember its place."""

    topic: str
    partition: int
    offset: int
    timestamp_us: int


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Where some consecutive rows of a `send_arrow` went; they have consecutive offsets from
    `base_offset`."""

    topic: str
    partition: int
    base_offset: int
    record_count: int


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """Who leads and who holds one partition. `leader` is None where the partition is offline."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = -1


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic with its partitions, in order, and its settings that differ from the defaults."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionDescription, ...]
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def replication_factor(self) -> int:
        """The number of replicas of the partition that has the most; 0 for a topic without partitions."""
        return max((len(partition.replicas) for partition in self.partitions), default=0)


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """One broker as the controller sees it. `address` is None where it is not registered."""

    broker_id: int
    address: str | None
    alive: bool
    broker_epoch: int
    leader_count: int
    replica_count: int


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster as the active controller sees it."""

    cluster_id: str
    controller_id: int
    controller_address: str
    controller_epoch: int
    brokers: tuple[BrokerDescription, ...]
    topic_count: int
    partition_count: int
    offline_partition_count: int
    under_replicated_partition_count: int
    under_min_isr_partition_count: int

    @property
    def healthy(self) -> bool:
        """Whether every partition has a leader and all its replicas in sync, and every broker is alive."""
        return (
            self.offline_partition_count == 0
            and self.under_replicated_partition_count == 0
            and self.under_min_isr_partition_count == 0
            and all(broker.alive for broker in self.brokers)
        )
