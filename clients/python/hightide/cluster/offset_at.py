"""The offset that a caller means: the first, the next, or the first at or after a time."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from hightide.errors import InvalidArgumentError
from hightide.moments import EPOCH, MICROSECOND, checked_microseconds
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


def offset_at_time(timestamp: datetime | int) -> OffsetAt:
    """The first offset at or after an aware datetime, or microseconds since 1970. Raises
    InvalidArgumentError, also for a number that is rather in another unit."""
    if isinstance(timestamp, datetime):
        if timestamp.tzinfo is None:
            raise InvalidArgumentError(
                f"the time {timestamp} has no time zone; give it one, such as datetime.UTC"
            )
        timestamp_us = (timestamp - EPOCH) // MICROSECOND
        if timestamp_us < 0:
            raise InvalidArgumentError(f"the time {timestamp} is before 1970")
    elif isinstance(timestamp, bool) or not isinstance(timestamp, int):
        raise InvalidArgumentError(
            f"the time {timestamp!r} is neither a datetime nor a whole number of microseconds"
        )
    else:
        timestamp_us = checked_microseconds("the time", timestamp)
    return OffsetAt(broker_service_pb2.OFFSET_SPEC_TIMESTAMP, timestamp_us)


def offset_at(at: str | datetime | int) -> OffsetAt:
    """ "earliest", "latest", or a time. Raises InvalidArgumentError."""
    if at == "earliest":
        return EARLIEST
    if at == "latest":
        return LATEST
    if isinstance(at, str):
        raise InvalidArgumentError(f'{at!r} is not "earliest", "latest" or a time')
    return offset_at_time(at)
