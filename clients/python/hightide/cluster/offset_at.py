"""The offset that a caller means: the first, the next, or the first at or after a time."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from hightide.errors import InvalidArgumentError
from hightide.v1 import broker_service_pb2
from hightide.v1.broker_service_pb2 import ListOffsetsPartition


@dataclass(frozen=True, slots=True)
class OffsetAt:
    """A look-up for ListOffsets."""

    spec: broker_service_pb2.OffsetSpec.ValueType
    timestamp_us: int = 0

    def for_partition(self, topic_id: bytes, partition: int, leader_epoch: int) -> ListOffsetsPartition:
        """The look-up in one partition, in the contract's form."""
        return ListOffsetsPartition(
            topic_id=topic_id,
            partition=partition,
            leader_epoch=leader_epoch,
            spec=self.spec,
            timestamp_us=self.timestamp_us,
        )


EARLIEST: Final = OffsetAt(broker_service_pb2.OFFSET_SPEC_EARLIEST)
LATEST: Final = OffsetAt(broker_service_pb2.OFFSET_SPEC_LATEST)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
# Today's time has 10 digits in seconds and 13 in milliseconds. In microseconds, such numbers are all before
# May 1970.
_OTHER_UNITS: Final = range(10**9, 10**13)
_LAST_US: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def moment_at(timestamp_us: int) -> datetime:
    """The time that is so many microseconds after 1970. For callers who have checked the unit. Raises
    InvalidArgumentError for a time after the year 9999."""
    try:
        return _EPOCH + timedelta(microseconds=timestamp_us)
    except OverflowError:
        raise InvalidArgumentError(f"the time {timestamp_us} us is after the year 9999") from None


def offset_at_time(timestamp: datetime | int) -> OffsetAt:
    """The first offset at or after an aware datetime, or microseconds since 1970. A number that is rather
    seconds, milliseconds or nanoseconds is refused. Raises InvalidArgumentError."""
    if isinstance(timestamp, datetime):
        if timestamp.tzinfo is None:
            raise InvalidArgumentError(
                f"the time {timestamp} has no time zone; give it one, such as datetime.UTC"
            )
        timestamp = (timestamp - _EPOCH) // _MICROSECOND
    elif isinstance(timestamp, bool) or not isinstance(timestamp, int):
        raise InvalidArgumentError(
            f"the time {timestamp!r} is neither a datetime nor a whole number of microseconds"
        )
    elif timestamp in _OTHER_UNITS:
        unit, factor = ("milliseconds", 1_000) if timestamp >= 10**11 else ("seconds", 1_000_000)
        raise InvalidArgumentError(
            f"the time {timestamp} is {moment_at(timestamp):%Y-%m-%d %H:%M} in microseconds, and "
            f"{moment_at(timestamp * factor):%Y-%m-%d %H:%M} in {unit}; pass a datetime, or for the latter "
            f"{timestamp * factor}"
        )
    elif timestamp > _LAST_US:
        raise InvalidArgumentError(
            f"the time {timestamp} is after the year 9999 in microseconds; pass a datetime, or if it is in "
            f"nanoseconds {timestamp // 1_000}"
        )
    if timestamp < 0:
        raise InvalidArgumentError(f"the time {timestamp} us is before 1970")
    return OffsetAt(broker_service_pb2.OFFSET_SPEC_TIMESTAMP, timestamp)


def offset_at(at: str | datetime | int) -> OffsetAt:
    """ "earliest", "latest", or a time. Raises InvalidArgumentError."""
    if at == "earliest":
        return EARLIEST
    if at == "latest":
        return LATEST
    if isinstance(at, str):
        raise InvalidArgumentError(f'{at!r} is not "earliest", "latest" or a time')
    return offset_at_time(at)
