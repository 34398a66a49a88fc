"""The statistics of the flights of one airport in one window of time, without Spark.

Spark sums only whole numbers, and all divisions are made here. So a micro-batch that is repeated in another
order gives the same result to the last digit, and the sink recognizes it as written.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

#: A flight is late if it leaves at least this long after its scheduled time, as in the airlines' statistics.
LATE_MIN: Final = 15


@dataclass(frozen=True, slots=True)
class DelayWindow:
    """The flights that were scheduled to leave `origin` in [start, end). Times are New York's local times
    with the zone UTC. Delays are in minutes."""

    start: datetime
    end: datetime
    origin: str
    airport: str | None
    """The name of the origin; None if it is not in the table of airports."""
    flights: int
    cancelled: int
    """Flights without a departure."""
    late: int
    delay_min_sum: int
    """The sum for all flights that left; an early departure is negative."""
    delay_min_max: int | None
    wet_departures: int
    """Flights that left and were scheduled in an hour of rain or snow."""
    wet_delay_min_sum: int
    weather_unknown: int
    """Flights that were scheduled in an hour without weather data."""
    unlisted_destinations: int
    """Flights to an airport that is not in the table of airports."""

    @property
    def departures(self) -> int:
        """Flights that left."""
        return self.flights - self.cancelled

    @property
    def mean_delay_min(self) -> float | None:
        """The mean delay of the flights that left; None if none did."""
        return mean(self.delay_min_sum, self.departures)

    @property
    def key(self) -> str:
        """The key of the window's record. The newest record of a key is the valid one."""
        return f"{self.origin} {self.start.isoformat()}"

    def document(self) -> str:
        """The value of the window's record, as JSON."""
        dry = mean(self.delay_min_sum - self.wet_delay_min_sum, self.departures - self.wet_departures)
        means = {
            "mean_delay_min": self.mean_delay_min,
            "mean_delay_wet_min": mean(self.wet_delay_min_sum, self.wet_departures),
            "mean_delay_dry_min": dry,
        }
        times = {"start": self.start.isoformat(), "end": self.end.isoformat()}
        return json.dumps({**asdict(self), **times, **means}, separators=(",", ":"))


def mean(total: int, count: int) -> float | None:
    """The mean, rounded to two digits; None if `count` is 0."""
    return round(total / count, 2) if count else None


def window_of(row: Mapping[str, Any]) -> DelayWindow:
    """Make a window of a row with its fields by name, from Spark or from the table. Times must have a
    zone."""
    fields = {name: row[name] for name in DelayWindow.__dataclass_fields__}
    times = {name: fields[name].astimezone(UTC) for name in ("start", "end")}
    return DelayWindow(**{**fields, **times})


def updated(table: Iterable[DelayWindow], changed: Iterable[DelayWindow]) -> list[DelayWindow]:
    """The table with the changed windows in place of the old ones, by start and origin. A repetition changes
    nothing."""
    newest = {each.key: each for each in (*table, *changed)}
    return sorted(newest.values(), key=lambda each: (each.start, each.origin))


def by_week(table: Iterable[DelayWindow]) -> dict[str, list[tuple[datetime, float]]]:
    """The mean delay in minutes for each origin and calendar week, with the start of the week's first
    window."""
    sums: dict[tuple[str, int, int], tuple[datetime, int, int]] = {}
    for each in sorted(table, key=lambda window: window.start):
        year, week, _ = each.start.isocalendar()
        first, total, count = sums.get((each.origin, year, week), (each.start, 0, 0))
        sums[each.origin, year, week] = first, total + each.delay_min_sum, count + each.departures
    weeks: dict[str, list[tuple[datetime, float]]] = {}
    for (origin, _, _), (first, total, count) in sums.items():
        if count:
            weeks.setdefault(origin, []).append((first, total / count))
    return dict(sorted(weeks.items()))


def dry_and_wet(table: Iterable[DelayWindow]) -> dict[str, tuple[float, float]]:
    """The mean delays in minutes for each origin, in dry and in wet hours; 0 if there were no departures."""
    sums: dict[str, tuple[int, int, int, int]] = {}
    for each in table:
        total, count, wet_total, wet_count = sums.get(each.origin, (0, 0, 0, 0))
        sums[each.origin] = (
            total + each.delay_min_sum,
            count + each.departures,
            wet_total + each.wet_delay_min_sum,
            wet_count + each.wet_departures,
        )
    return {
        origin: (mean(total - wet_total, count - wet_count) or 0.0, mean(wet_total, wet_count) or 0.0)
        for origin, (total, count, wet_total, wet_count) in sorted(sums.items())
    }
