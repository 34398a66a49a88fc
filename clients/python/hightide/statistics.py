"""What clients tell their programs of themselves: failures of calls, and figures now and then."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hightide.errors.base import HightideError
from hightide.records import TopicPartition


@dataclass(frozen=True, slots=True)
class CallFailure:
    """A call that failed, which the client handles by itself: it tries again, or asks another broker. If the
    failure lasts, the program's own calls raise in the end. `method` is the RPC, such as "Fetch".
    `count` is how many calls to this address have failed alike since the last report."""

    error: HightideError
    method: str
    address: str
    count: int


@dataclass(frozen=True, slots=True)
class BrokerStatistics:
    """The calls of a client to one address. `calls` and `failures` count since the client was made;
    `call_ms_mean` and `call_ms_max` are of the calls that ended since the last statistics, and 0 without any.
    A fetch waits at the broker for records, which is part of its time."""

    calls: int
    failures: int
    in_flight: int
    call_ms_mean: float
    call_ms_max: float


@dataclass(frozen=True, slots=True)
class ProducerStatistics:
    """The state of a producer. Counts are since it was made. `retries` are attempts beyond the first one of
    each batch; `buffered_bytes` is what waits for acknowledgement."""

    acknowledged_records: int
    acknowledged_bytes: int
    failed_records: int
    batches: int
    retries: int
    undelivered_records: int
    buffered_bytes: int
    throttled_ms: float
    brokers: Mapping[str, BrokerStatistics] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionStatistics:
    """One assigned partition. `position` is the offset of the next record to return, None before it is known.
    `lag` is the distance to the high watermark as last heard, None before it is."""

    position: int | None
    high_watermark: int | None
    lag: int | None
    buffered_bytes: int
    is_paused: bool


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """The membership of a consumer. `state` is "member" while the coordinator counts it in."""

    group: str
    state: str
    member_id: str
    consumer_id: str
    generation: int
    coordinator: str | None


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """The state of a consumer. Counts are since it was made; `buffered_bytes` is what was fetched and not yet
    returned. `group` is None outside of a group."""

    fetched_records: int
    fetched_bytes: int
    buffered_bytes: int
    throttled_ms: float
    partitions: Mapping[TopicPartition, PartitionStatistics]
    group: GroupStatistics | None = None
    brokers: Mapping[str, BrokerStatistics] = field(default_factory=dict)


ClientStatistics = ProducerStatistics | ConsumerStatistics

#: Called with each failure, on the thread of the client, or on its event loop.
ErrorCallback = Callable[[CallFailure], object]
