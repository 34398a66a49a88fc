"""Times as brokers have them, microseconds since 1970, and numbers that are rather other units."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from hightide.batch.header import TIMESTAMP_US_MAX
from hightide.errors import InvalidArgumentError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
# Today's time has 10 digits in seconds and 13 in milliseconds. In microseconds, such numbers are all before
# May 1970.
_OTHER_UNITS: Final = range(10**9, 10**13)


def moment_at(timestamp_us: int) -> datetime:
    """The time that is so many microseconds after 1970. For callers who have checked the unit. Raises
    InvalidArgumentError for a time after the year 9999."""
    try:
        return EPOCH + timedelta(microseconds=timestamp_us)
    except OverflowError:
        raise InvalidArgumentError(f"the time {timestamp_us} us is after the year 9999") from None


def checked_microseconds(what: str, timestamp_us: Any) -> int:
    """A time that is in microseconds and not in another unit: records from 1970 are at once too old to be
    kept, and a search from there finds everything. Raises InvalidArgumentError."""
    if isinstance(timestamp_us, bool) or not isinstance(timestamp_us, int):
        raise InvalidArgumentError(
            f"{what} is a whole number of microseconds since 1970, not {timestamp_us!r}"
        )
    if timestamp_us in _OTHER_UNITS:
        unit, factor = ("milliseconds", 1_000) if timestamp_us >= 10**11 else ("seconds", 1_000_000)
        raise InvalidArgumentError(
            f"{what} {timestamp_us} is {moment_at(timestamp_us):%Y-%m-%d %H:%M} in microseconds, and "
            f"{moment_at(timestamp_us * factor):%Y-%m-%d %H:%M} in {unit}; for the latter pass "
            f"{timestamp_us * factor}"
        )
    if timestamp_us > TIMESTAMP_US_MAX:
        raise InvalidArgumentError(
            f"{what} {timestamp_us} is after the year 9999 in microseconds; if it is in nanoseconds, pass "
            f"{timestamp_us // 1_000}"
        )
    if timestamp_us < 0:
        raise InvalidArgumentError(f"{what} {timestamp_us} us is before 1970")
    return timestamp_us
