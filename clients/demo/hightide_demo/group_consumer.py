"""One consumer of the demo's group: a process of its own, so that it can be killed. It reports what it does.

Its report says what was handed out before the consumer asks for more, and so before any of it is committed:
what is missing in the report of a dead consumer was not committed either.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from types import FrameType

from hightide import Consumer, Record, TopicPartition
from hightide_local.traces.client_traces import trace_clients

from hightide_demo.group_reports import Given, GroupReport, HandedOut, Taken, report_line

_RECORDS_MAX = 2_000
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """What one consumer is told, as JSON in its command line."""

    bootstrap: str
    group: str
    topic: str
    name: str
    session_timeout_ms: int
    report_path: str

    def argument(self) -> str:
        """Return the settings as the command line carries them."""
        return json.dumps(asdict(self))


class Reporting:
    """Follows which partitions the consumer owns, and appends every report to its file at once."""

    def __init__(self, report_path: str) -> None:
        self._file = os.open(report_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._generations: dict[int, int] = {}
        self.is_over = False
        """Set before the consumer is closed: how the group falls apart is nothing to report."""

    def given(self, generations: Mapping[TopicPartition, int]) -> None:
        """The partitions were given to this consumer, each in a generation. Called by its callback."""
        now_ms = _now_ms()
        for each, generation in generations.items():
            self._generations[each.partition] = generation
        self._report([Given(now_ms, each.partition, generation) for each, generation in generations.items()])

    def taken(self, partitions: Iterable[TopicPartition]) -> None:
        """The partitions are not this consumer's any more. Called by the consumer's callbacks."""
        now_ms = _now_ms()
        self._report(
            [
                Taken(now_ms, each.partition, self._generations[each.partition])
                for each in partitions
                if each.partition in self._generations
            ]
        )

    def handed_out(self, records: Sequence[Record]) -> None:
        """Records were handed out. Called with all that one poll() returned."""
        now_ms = _now_ms()
        self._report(
            [
                HandedOut(now_ms, partition, self._generations[partition], first, following)
                for partition, first, following in runs(records)
            ]
        )

    def _report(self, reports: Sequence[GroupReport]) -> None:
        if reports and not self.is_over:
            os.write(self._file, b"".join(map(report_line, reports)))


def runs(records: Iterable[Record]) -> Iterator[tuple[int, int, int]]:
    """Cut records, in the order of being handed out, into runs of consecutive offsets of one partition:
    partition, first offset, and the offset behind the last."""
    numbered = enumerate(records)
    for (partition, _), run in groupby(numbered, lambda each: (each[1].partition, each[1].offset - each[0])):
        members = [record for _, record in run]
        yield partition, members[0].offset, members[-1].offset + 1


def consume(settings: ConsumerSettings) -> None:
    """Read as a member of the group until SIGTERM, then leave it."""
    is_told_to_end = False

    def end(signal_number: int, frame: FrameType | None) -> None:
        nonlocal is_told_to_end
        is_told_to_end = True

    signal.signal(signal.SIGTERM, end)
    reporting = Reporting(settings.report_path)
    with Consumer(
        settings.bootstrap,
        group=settings.group,
        topics=[settings.topic],
        consumer_id=settings.name,
        session_timeout_ms=settings.session_timeout_ms,
        offset_reset="earliest",
        on_assign=lambda partitions: reporting.given(
            {each: consumer.generations[each] for each in partitions}
        ),
        on_revoke=reporting.taken,
        on_lost=reporting.taken,
    ) as consumer:
        while not is_told_to_end:
            reporting.handed_out(consumer.poll(_POLL_S, _RECORDS_MAX))
        reporting.is_over = True


def _now_ms() -> float:
    return time.monotonic() * 1000


if __name__ == "__main__":
    trace_clients(at_once=True)
    consume(ConsumerSettings(**json.loads(sys.argv[1])))
