"""How much moves in the cluster, over the last minutes: what the charts of the overview draw. Pure."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from hightide_console.looks import Survey
from hightide_console.settings import HISTORY_POINTS


@dataclass(frozen=True, slots=True)
class TrafficPoint:
    """What moved a second at one moment. None: not known. What went out is known only where brokers serve
    metrics."""

    at_ms: int
    records_in: float | None
    bytes_in: float | None
    records_out: float | None
    bytes_out: float | None
    produce_ms: float | None = None
    fetch_ms: float | None = None


class TrafficHistory:
    """The last points, the oldest first."""

    def __init__(self) -> None:
        self._points: deque[TrafficPoint] = deque(maxlen=HISTORY_POINTS)

    def add(self, survey: Survey) -> None:
        """Take in one survey; surveys come in the order of time."""
        self._points.append(point_of(survey))

    @property
    def points(self) -> Sequence[TrafficPoint]:
        """What there is."""
        return tuple(self._points)

    def columns(self) -> list[list[float | None]]:
        """The points as columns, as a chart takes them: seconds, records in, records out, MB in, MB out."""
        mega = 1e6
        return [
            [each.at_ms / 1000 for each in self._points],
            [each.records_in for each in self._points],
            [each.records_out for each in self._points],
            [None if each.bytes_in is None else each.bytes_in / mega for each in self._points],
            [None if each.bytes_out is None else each.bytes_out / mega for each in self._points],
        ]


def point_of(survey: Survey) -> TrafficPoint:
    """The point of one survey. What came in is told by the logs themselves, on every cluster."""
    figures = list(survey.figures.values())
    return TrafficPoint(
        at_ms=survey.at_ms,
        records_in=survey.top.total.records_per_s,
        bytes_in=survey.top.total.bytes_per_s,
        records_out=sum(each.sent_records for each in figures) if figures else None,
        bytes_out=sum(each.sent_bytes for each in figures) if figures else None,
        produce_ms=_slowest(survey, "Produce"),
        fetch_ms=_slowest(survey, "Fetch"),
    )


def _slowest(survey: Survey, method: str) -> float | None:
    """The mean latency of a method on the broker where it is highest."""
    found = [
        took_ms
        for each in survey.figures.values()
        for name, took_ms in each.latencies_ms.items()
        if name.rpartition("/")[2] == method
    ]
    return max(found, default=None)
