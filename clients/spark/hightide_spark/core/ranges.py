"""Ranges of offsets, and their division into Spark's tasks."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from hightide_spark.core.stream_offsets import StreamOffsets
from hightide_spark.errors import TooManyTasksError

# The driver keeps an object for each task, and Spark a partition of its plan.
TASKS_MAX: Final = 100_000


@dataclass(frozen=True, slots=True, order=True)
class LogRange:
    """The records [start, end) of one partition of the topic with this name and this id."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of records."""
        return self.end - self.start


def between(start: StreamOffsets, end: StreamOffsets) -> list[LogRange]:
    """The ranges of a micro-batch. A partition that is new since `start`, or whose topic is another one than
    at `start`, begins at offset 0, so that a repeated batch has the same records."""
    found = []
    for topic, upto in end.items():
        before = start.get(topic)
        known = before.offsets if before is not None and before.topic_id == upto.topic_id else {}
        found += [
            LogRange(topic, upto.topic_id, number, known.get(number, 0), offset)
            for number, offset in upto.offsets.items()
            if offset > known.get(number, 0)
        ]
    return sorted(found)


def split(ranges: Iterable[LogRange], min_partitions: int | None, max_records: int | None) -> list[LogRange]:
    """Cut ranges, each into equal pieces. None is larger than `max_records`, and there are at least
    `min_partitions` pieces in all, if there are that many records. The largest pieces are cut first. Raises
    TooManyTasksError where `max_records` asks for more than TASKS_MAX pieces."""
    whole = sorted(each for each in ranges if each.size > 0)
    counts = [-(-each.size // max_records) if max_records else 1 for each in whole]
    if max_records and sum(counts) > TASKS_MAX:
        raise TooManyTasksError(
            f"option maxRecordsPerPartition is {max_records}, which cuts {sum(each.size for each in whole)} "
            f"records into {sum(counts)} tasks; there may be {TASKS_MAX}"
        )
    heap = [(-each.size / count, at) for at, (each, count) in enumerate(zip(whole, counts, strict=True))]
    heapq.heapify(heap)
    missing = (min_partitions or 0) - sum(counts)
    while missing > 0 and heap:
        _, at = heapq.heappop(heap)
        if counts[at] < whole[at].size:
            counts[at] += 1
            missing -= 1
            heapq.heappush(heap, (-whole[at].size / counts[at], at))
    return [piece for each, count in zip(whole, counts, strict=True) for piece in _pieces(each, count)]


def _pieces(whole: LogRange, count: int) -> list[LogRange]:
    edges = [whole.start + whole.size * at // count for at in range(count + 1)]
    return [
        LogRange(whole.topic, whole.topic_id, whole.partition, start, end) for start, end in pairwise(edges)
    ]
