"""The offsets that a group gets by a reset: requests in, offsets within the log out. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hightide import TopicPartition


class ResetTo(Enum):
    """The kinds of targets of a reset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"
    SHIFT = "shift"


@dataclass(frozen=True, slots=True)
class ResetTarget:
    """The requested target. `value` is the offset, microseconds since 1970, or the number of records to shift
    by, negative for backwards; 0 for the other kinds."""

    to: ResetTo
    value: int = 0


@dataclass(frozen=True, slots=True)
class LogRange:
    """The offsets of a partition: the first one, and the next one to be written."""

    earliest: int
    latest: int

    def nearest(self, offset: int) -> int:
        """Return the offset itself, or the nearest end of the range if it lies outside."""
        return min(max(offset, self.earliest), self.latest)


@dataclass(frozen=True, slots=True)
class PlannedReset:
    """One partition's reset. `wanted` is the requested offset, `offset` the nearest one in the log."""

    partition: "TopicPartition"
    committed: int | None
    wanted: int
    offset: int
    latest: int

    @property
    def change(self) -> int | None:
        """The number of records by which the offset moves; None if none is committed."""
        return None if self.committed is None else self.offset - self.committed

    @property
    def lag(self) -> int:
        """The number of records that the group will have to read."""
        return self.latest - self.offset

    @property
    def remark(self) -> str | None:
        """The reason why the offset differs from the request."""
        if self.wanted < self.offset:
            return f"{self.wanted} is before the first offset"
        if self.wanted > self.offset:
            return f"{self.wanted} is beyond the end"
        return None


class ResetPlanError(Exception):
    """A request that is not possible for every partition."""


def plan_resets(
    target: ResetTarget,
    ranges: Mapping["TopicPartition", LogRange],
    committed: Mapping["TopicPartition", int],
    at_time: Mapping["TopicPartition", int | None],
) -> list[PlannedReset]:
    """Plan the reset of each partition of `ranges`, in their order, to an offset that its log has.

    `at_time` is needed for ResetTo.TIME: the first offset at or after it, None if no record is that late,
    which means the end. Raises ResetPlanError if there is no offset to shift.
    """
    if target.to is ResetTo.SHIFT:
        _check_committed(ranges, committed)
    planned = []
    for partition, log in ranges.items():
        before = committed.get(partition)
        match target.to:
            case ResetTo.EARLIEST:
                wanted = log.earliest
            case ResetTo.LATEST:
                wanted = log.latest
            case ResetTo.OFFSET:
                wanted = target.value
            case ResetTo.TIME:
                found = at_time[partition]
                wanted = log.latest if found is None else found
                # The record may have been written since the end was asked for. To ask for the end afterwards
                # would skip records where none was found.
                log = LogRange(log.earliest, max(log.latest, wanted))
            case ResetTo.SHIFT:
                wanted = committed[partition] + target.value
        planned.append(PlannedReset(partition, before, wanted, log.nearest(wanted), log.latest))
    return planned


def _check_committed(
    partitions: Iterable["TopicPartition"], committed: Mapping["TopicPartition", int]
) -> None:
    without = [partition for partition in partitions if partition not in committed]
    if not without:
        return
    others = f" (and {len(without) - 1} more)" if len(without) > 1 else ""
    raise ResetPlanError(
        f"{without[0]}{others} has no committed offset to shift: give --to-offset or --to-earliest"
    )
