"""The values that the SDK returns: records, and descriptions of topics and of the cluster. All of them are
immutable."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from hightide.errors import HightideError
    from hightide.servers import ServerAddress

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Headers = tuple[tuple[str, bytes], ...]
#: As they are read: other clients, and Spark, also write headers without a value.
ReadHeaders = tuple[tuple[str, bytes | None], ...]
KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of one topic. Sorts by topic, then partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Record(NamedTuple):
    """One record as a consumer reads it. A value of None is a tombstone; None is not the same as b"".

    It is a tuple, because a tuple is the one kind of object that many can be made of without a line of Python
    for each."""

    topic: str
    partition: int
    offset: int
    timestamp_us: int
    key: bytes | None
    value: bytes | None
    headers: ReadHeaders = ()

    @property
    def timestamp(self) -> datetime:
        """The record's timestamp as an aware datetime in UTC."""
        return _EPOCH + timedelta(microseconds=self.timestamp_us)


@dataclass(frozen=True, slots=True)
class DeserializedRecord(Generic[KeyT, ValueT]):
    """One record as a `DeserializingConsumer` reads it. A key or value that the record does not have is
    None."""

    topic: str
    partition: int
    offset: int
    timestamp_us: int
    key: KeyT | None
    value: ValueT | None
    headers: ReadHeaders = ()

    @property
    def timestamp(self) -> datetime:
        """The record's timestamp as an aware datetime in UTC."""
        return _EPOCH + timedelta(microseconds=self.timestamp_us)


#: What can be committed.
AnyRecord = Record | DeserializedRecord[Any, Any]


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """The place of one record that was sent. `offset` is -1 if the broker does not return it: with acks=0, or
    if a retried batch proved to be appended already, so long ago that the broker does not remember its
    place."""

    topic: str
    partition: int
    offset: int
    timestamp_us: int


@dataclass(frozen=True, slots=True)
class RecordRange:
    """The place of some consecutive rows of a `send_arrow`; they have consecutive offsets from
    `base_offset`."""

    topic: str
    partition: int
    base_offset: int
    record_count: int


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """The leader and the replicas of one partition. `leader` is None if the partition is offline."""

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
    """One broker as the controller sees it. `address` is None if the broker is not registered."""

    broker_id: int
    address: str | None
    alive: bool
    broker_epoch: int
    leader_count: int
    replica_count: int


@dataclass(frozen=True, slots=True)
class Complaint:
    """One problem that an operator should look at. `subject` is the path of a znode, a topic-partition, or a
    broker; `message` is a sentence with the next step."""

    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster as the active controller sees it. `controllers` and `coordinators` list the active
    processes and those on standby; they are empty if the controller's version does not send them."""

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
    coordination: str = "controller"
    """What decides who leads: "controller" or "leaders". With leaders there is no controller: the fields of
    that name tell the broker that answered, and epoch 0."""

    @property
    def healthy(self) -> bool:
        """Whether every partition has a leader and all its replicas in sync, every broker is alive, and the
        controller has no complaint."""
        return (
            self.offline_partition_count == 0
            and self.under_replicated_partition_count == 0
            and self.under_min_isr_partition_count == 0
            and all(broker.alive for broker in self.brokers)
            and not self.complaints
        )


@dataclass(frozen=True, slots=True)
class DeliveredPiece:
    """The outcome of some consecutive rows of a `send_arrow`. `base_offset` is the offset of the first row,
    or -1 if it is not known or the rows failed; `error` then says why they failed."""

    record_count: int
    base_offset: int
    error: "HightideError | None" = None


@dataclass(frozen=True, slots=True)
class ProducerState:
    """The state that the log of a partition keeps for an idempotent producer and its newest epoch there. The
    producer wrote its records, among the records of others, at offsets from `first_offset` to `end_offset`,
    with the sequences from `first_sequence` to `next_sequence`. They may not be committed yet."""

    producer_id: int
    producer_epoch: int
    first_sequence: int
    first_offset: int
    next_sequence: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """A topic that was deleted. `absent_brokers` are down and hold replicas of it, which they delete when
    they start again. It is also empty if an earlier attempt, whose answer was lost, proved to have deleted
    the topic."""

    topic: TopicDescription
    absent_brokers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """The outcome for one partition of a request about many. If nothing was done, `error` says why."""

    partition: TopicPartition
    error: "HightideError | None" = None

    @property
    def ok(self) -> bool:
        """Whether the request was carried out for this partition."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class Reassignment:
    """One move under way (V3 F). `target` is RAR, the replicas that the partition will have. `replicas` is
    AR, which holds the old and the new replicas until the move is done. The move is done when the target is
    part of `isr`. `leader` is None if the partition is offline."""

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
        """The brokers that delete their replica when the move is done."""
        return tuple(broker for broker in self.original if broker not in self.target)


@dataclass(frozen=True, slots=True)
class ReassignmentListing:
    """The moves that are not finished, by topic and partition, and the speed limit of moves: bytes a second
    that each broker sends, 0 for none."""

    reassignments: tuple[Reassignment, ...]
    throttle_bytes_per_s: int


@dataclass(frozen=True, slots=True)
class Election:
    """The outcome of one partition's election. Electing the broker that already leads is no error. For an
    unclean election, `previous_isr` is the ISR before it: records that only those brokers held are lost."""

    partition: TopicPartition
    leader: int | None
    leader_epoch: int
    previous_leader: int | None
    previous_isr: tuple[int, ...] = ()
    message: str = ""
    error: "HightideError | None" = None

    @property
    def ok(self) -> bool:
        """Whether the partition now has the leader that was asked for."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """One replica as its broker knows it. `log_directory` counts the broker's directories from 0. If
    `storage_failed`, that directory cannot be used, and the sizes are the last known ones."""

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
    """The replicas on the live brokers, by partition and broker. `silent_brokers` maps each broker that did
    not answer to the reason."""

    replicas: tuple[ReplicaDescription, ...]
    silent_brokers: Mapping[int, str] = field(default_factory=dict)
