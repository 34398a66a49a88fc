"""What the SDK hands out: records, and what is known of topics and of the cluster. All of it is immutable."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hightide.errors import HightideError
    from hightide.servers import ServerAddress

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
class Complaint:
    """One thing that an operator should look at. `subject` is the path of a znode, a topic-partition, or a
    broker; `message` is a sentence with the next step."""

    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster as the active controller sees it. `controllers` and `coordinators` are all that are there,
    the active ones and those that stand by; empty where the controller is of a version that does not tell."""

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
    not_preferred_leader_count: int = 0
    reassignment_count: int = 0
    reassignment_throttle_bytes_per_s: int = 0
    complaints: tuple[Complaint, ...] = ()
    controllers: "tuple[ServerAddress, ...]" = ()
    coordinators: "tuple[ServerAddress, ...]" = ()

    @property
    def healthy(self) -> bool:
        """Whether every partition has a leader and all its replicas in sync, every broker is alive, and the
        controller has nothing to complain of."""
        return (
            self.offline_partition_count == 0
            and self.under_replicated_partition_count == 0
            and self.under_min_isr_partition_count == 0
            and all(broker.alive for broker in self.brokers)
            and not self.complaints
        )


@dataclass(frozen=True, slots=True)
class DeliveredPiece:
    """What became of some consecutive rows of a `send_arrow`. `base_offset` is that of the first one; -1
    where it is not known, or `error` says why they failed."""

    record_count: int
    base_offset: int
    error: "HightideError | None" = None


@dataclass(frozen=True, slots=True)
class ProducerState:
    """What the log of a partition remembers of an idempotent producer, and of its newest epoch there: from
    `first_offset` to `end_offset` lies what it wrote, under the sequences from `first_sequence` to
    `next_sequence`, among the records of others. It may not be committed yet."""

    producer_id: int
    producer_epoch: int
    first_sequence: int
    first_offset: int
    next_sequence: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """A topic that is gone. `absent_brokers` are down and hold replicas of it: they let go of them when they
    start again. It is empty too where an earlier attempt, whose answer was lost, proved to have deleted the
    topic."""

    topic: TopicDescription
    absent_brokers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """What became of one partition of a request about many. `error` says why nothing was done."""

    partition: TopicPartition
    error: "HightideError | None" = None

    @property
    def ok(self) -> bool:
        """Whether it was done."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class Reassignment:
    """One move under way (V3 F). `target` is RAR; `replicas` is AR: both, until the move is done, which it is
    when the target is part of `isr`. `leader` is None where the partition is offline."""

    partition: TopicPartition
    topic_id: bytes
    original: tuple[int, ...]
    target: tuple[int, ...]
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int | None

    @property
    def adding(self) -> tuple[int, ...]:
        """The brokers that get a replica by this move."""
        return tuple(broker for broker in self.target if broker not in self.original)

    @property
    def removing(self) -> tuple[int, ...]:
        """The brokers that let go of theirs when it is done."""
        return tuple(broker for broker in self.original if broker not in self.target)


@dataclass(frozen=True, slots=True)
class ReassignmentListing:
    """The moves that are not finished, by topic and partition, and the speed limit of moves: bytes a second
    that each broker sends, 0 for none."""

    reassignments: tuple[Reassignment, ...]
    throttle_bytes_per_s: int


@dataclass(frozen=True, slots=True)
class Election:
    """What became of one partition's election. Electing whoever leads already is no error. Of an unclean
    election `previous_isr` is the ISR before: what only those brokers held is lost."""

    partition: TopicPartition
    leader: int | None
    leader_epoch: int
    previous_leader: int | None
    previous_isr: tuple[int, ...] = ()
    message: str = ""
    error: "HightideError | None" = None

    @property
    def ok(self) -> bool:
        """Whether the partition is led as was asked for."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """One replica as its broker knows it. `log_directory` counts the broker's directories from 0; where
    `storage_failed`, that directory cannot be used and the figures are the last ones known."""

    partition: TopicPartition
    topic_id: bytes
    broker_id: int
    is_leader: bool
    leader_epoch: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    size_bytes: int
    log_directory: int = 0
    storage_failed: bool = False


@dataclass(frozen=True, slots=True)
class ReplicaListing:
    """What the live brokers hold, by partition and broker. `silent_brokers` did not answer, and why."""

    replicas: tuple[ReplicaDescription, ...]
    silent_brokers: Mapping[int, str] = field(default_factory=dict)
