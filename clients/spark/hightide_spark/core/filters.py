"""Filters on partition, offset and timestamp that narrow what a batch reads.

They only narrow: Spark checks every row against every filter again. Timestamps are the producers' and need
not ascend in a log. So a lower bound can be turned into an offset (no earlier record is that late), an upper
bound cannot.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Comparison: TypeAlias = Literal["=", "<", "<=", ">", ">=", "in"]


@dataclass(frozen=True, slots=True)
class Condition:
    """`column comparison value`; for "in", `value` is a tuple."""

    column: str
    comparison: Comparison
    value: Any


@dataclass(frozen=True, slots=True)
class Narrowing:
    """The result of all conditions together. `partitions` is None for all. Offsets are those in
    [first_offset, end_offset). `from_us` is the earliest timestamp."""

    partitions: frozenset[int] | None = None
    first_offset: int = 0
    end_offset: int | None = None
    from_us: int | None = None

    def narrowed(self, start: int, end: int) -> tuple[int, int]:
        """The part of a range of offsets that is left; empty where start is not before end."""
        return max(start, self.first_offset), end if self.end_offset is None else min(end, self.end_offset)


def narrowing(conditions: Iterable[Condition]) -> Narrowing:
    """The result of the conditions. Those that cannot narrow, perhaps because of their value's type, are
    ignored."""
    partitions: frozenset[int] | None = None
    first, end, from_us = 0, None, None
    for each in conditions:
        match each.column.lower():
            case "partition" if each.comparison in ("=", "in"):
                wanted = _whole_numbers(each)
                if wanted is not None:
                    partitions = wanted if partitions is None else partitions & wanted
            case "offset":
                least, beyond = _offset_bounds(each)
                first = max(first, least)
                end = beyond if end is None else end if beyond is None else min(end, beyond)
            case "timestamp" if each.comparison in ("=", ">", ">=") and isinstance(each.value, datetime):
                if each.value.tzinfo is not None:
                    time_us = max(0, (each.value - _EPOCH) // timedelta(microseconds=1))
                    from_us = time_us if from_us is None else max(from_us, time_us)
    return Narrowing(partitions, first, end, from_us)


def _whole_numbers(condition: Condition) -> frozenset[int] | None:
    values = condition.value if condition.comparison == "in" else (condition.value,)
    return frozenset(values) if all(type(value) is int for value in values) else None


def _offset_bounds(condition: Condition) -> tuple[int, int | None]:
    wanted = _whole_numbers(condition)
    if not wanted:
        return 0, None
    match condition.comparison:
        case "=" | "in":
            return min(wanted), max(wanted) + 1
        case ">":
            return max(wanted) + 1, None
        case ">=":
            return max(wanted), None
        case "<":
            return 0, min(wanted)
        case "<=":
            return 0, min(wanted) + 1
