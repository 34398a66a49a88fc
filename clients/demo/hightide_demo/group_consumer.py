"""One consumer of the demo's group: a process, so that it can be killed, which writes reports to a file.

It reports the records that it was handed out before it polls again, and so before they are committed. So
records that are missing in the report of a dead consumer were not committed either.
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

from hightide_demo.group_reports import GroupReport, HandedOut, PartitionGiven, PartitionTaken, report_line

_RECORDS_MAX = 2_000
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """The settings of one consumer, as JSON in its command line."""

    bootstrap: str
    group: str
    topic: str
    name: str
    session_timeout_ms: int
    report_path: str

    def argument(self) -> str:
        """Return the settings as the argument of the command line."""
        return json.dumps(asdict(self))


class OwnershipReporter:
    """Writes the consumer's reports, each at once, with the generation in which it owns the partition."""

    def __init__(self, report_path: str) -> None:
        self._file = os.open(report_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._generations: dict[int, int] = {}
        self.is_over = False
        """Set before the consumer is closed, since the rebalances when the group ends are not reported."""

    def given(self, generations: Mapping[TopicPartition, int]) -> None:
        """Report that partitions were given to this consumer, each in a generation. Called by `on_assign`."""
        now_ms = _now_ms()
        for each, generation in generations.items():
            self._generations[each.partition] = generation
        self._report(
            [PartitionGiven(now_ms, each.partition, generation) for each, generation in generations.items()]
        )

    def taken(self, partitions: Iterable[TopicPartition]) -> None:
        """Report that this consumer no longer owns these partitions. Called by `on_revoke` and `on_lost`."""
        now_ms = _now_ms()
        self._report(
            [
                PartitionTaken(now_ms, each.partition, self._generations[each.partition])
                for each in partitions
                if each.partition in self._generations
            ]
        )

    def handed_out(self, records: Sequence[Record]) -> None:
        """Report the records that one poll() returned."""
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
    """Cut records, in the order in which they were handed out, into runs of consecutive offsets of one
    partition. Yields the partition, the first offset, and the offset after the last."""
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
    reporting = OwnershipReporter(settings.report_path)
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
