"""The size of a micro-batch: maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay."""

from dataclasses import dataclass

from hightide_spark.core.ranges import LogRange, between
from hightide_spark.core.stream_offsets import StreamOffsets, TopicOffsets


def admit(start: StreamOffsets, end: StreamOffsets, max_records: int | None) -> StreamOffsets:
    """The end of a micro-batch that begins at `start` and takes at most `max_records` of the records up to
    `end`, from each partition in proportion to its waiting records. It is never beyond `end`; if any record
    waits, the batch takes some."""
    waiting = between(start, end)
    total = sum(each.size for each in waiting)
    if max_records is None or total <= max_records:
        return end
    shares = _shares(waiting, total, max_records)
    return {
        topic: TopicOffsets(
            upto.topic_id,
            {number: shares.get((topic, number), offset) for number, offset in upto.offsets.items()},
        )
        for topic, upto in end.items()
    }


def _shares(waiting: list[LogRange], total: int, max_records: int) -> dict[tuple[str, int], int]:
    """The end for each partition. Records left over by rounding go first to partitions that would get none,
    so that a long partition does not starve a short one, then to the largest remainders."""
    ends = {(each.topic, each.partition): each.start + each.size * max_records // total for each in waiting}
    by_remainder = sorted(
        waiting,
        key=lambda each: (each.size * max_records >= total, -(each.size * max_records % total), each),
    )
    left = max_records - sum(ends[each.topic, each.partition] - each.start for each in waiting)
    for each in by_remainder[:left]:
        ends[each.topic, each.partition] += 1
    return ends


@dataclass(frozen=True, slots=True)
class Patience:
    """The wait of a stream for `min_records`, at most `max_delay_ms` after the last micro-batch. `last_ms` is
    the time of that one, or None before the first, which does not wait, as in Spark's Kafka source."""

    min_records: int
    max_delay_ms: int
    last_ms: float | None = None

    def waits(self, waiting: int, now_ms: float) -> bool:
        """Whether the stream should wait for more records."""
        is_due = self.last_ms is None or now_ms - self.last_ms >= self.max_delay_ms
        return not is_due and waiting < self.min_records

    def after_batch(self, now_ms: float) -> "Patience":
        """The state after a micro-batch was let through."""
        return Patience(self.min_records, self.max_delay_ms, now_ms)
