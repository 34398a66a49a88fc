"""Which offsets a group gets by a reset: wishes in, offsets within the log out. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hightide import TopicPartition


class ResetTo(Enum):
    """Where offsets are set to."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"
    SHIFT = "shift"


@dataclass(frozen=True, slots=True)
class ResetTarget:
    """What was asked for. `value` is the offset, microseconds since 1970, or by how many records to shift,
    backwards where it is negative; 0 for the others."""

    to: ResetTo
    value: int = 0


@dataclass(frozen=True, slots=True)
class LogRange:
    """The offsets that a partition has: the first one, and the next one to be written."""

    earliest: int
    latest: int

    def nearest(self, offset: int) -> int:
        """Return the offset itself, or the end of the range that it lies beyond."""
        return min(max(offset, self.earliest), self.latest)


@dataclass(frozen=True, slots=True)
class PlannedReset:
    """One partition's reset. `wanted` is what was asked for, `offset` what the log has of it."""

    partition: "TopicPartition"
    committed: int | None
    wanted: int
    offset: int
    latest: int

    @property
    def change(self) -> int | None:
        """By how many records the offset moves; None where none is committed."""
        return None if self.committed is None else self.offset - self.committed

    @property
    def lag(self) -> int:
        """How many records the group will have to read."""
        return self.latest - self.offset

    @property
    def remark(self) -> str | None:
        """Why this is not quite what was asked for."""
        if self.wanted < self.offset:
            return f"{self.wanted} is before the first offset"
        if self.wanted > self.offset:
            return f"{self.wanted} is beyond the end"
        return None


class ResetPlanError(Exception):
    """What was asked for cannot be said of every partition."""


def plan_resets(
    target: ResetTarget,
    ranges: Mapping["TopicPartition", LogRange],
    committed: Mapping["TopicPartition", int],
    at_time: Mapping["TopicPartition", int | None],
) -> list[PlannedReset]:
    """Plan the reset of each partition of `ranges`, in their order, to an offset that its log has.

    `at_time` is needed for ResetTo.TIME: the first offset at or after it, None where no record is that late,
    which means the end. Raises ResetPlanError where there is nothing to shift.
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
        f"{without[0]}{others} has no committed offset to shift: say --to-offset or --to-earliest"
    )
