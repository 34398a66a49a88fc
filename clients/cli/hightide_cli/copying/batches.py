"""Copies records from topic to topic, in the form that they have in the log."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hightide_cli.printing.progress import WorkDone
from hightide_cli.records.ranges import TopicRanges, read_ranges

if TYPE_CHECKING:
    from hightide import BulkDelivery, Producer, RangeReader
    from pyarrow import RecordBatch

# Small batches are joined up to this size: with a counted writer, each partition has one batch under way.
_SENT_AT_ONCE_BYTES: Final = 1 << 20
# The limit for batches of any size, since each is an object of its own in memory.
_GATHERED_MAX: Final = 4_096
# At most this many deliveries are waited for, before the oldest one has to be done.
_UNDER_WAY_MAX: Final = 64


@dataclass(slots=True)
class Copied:
    """The records that the target has acknowledged."""

    records: int = 0
    size_bytes: int = 0


def copy_records(
    reader: "RangeReader",
    producer: "Producer",
    source: TopicRanges,
    target: str,
    copied: Copied,
    done: WorkDone,
    *,
    by_key: bool,
    waits_for: Callable[[str], None],
) -> None:
    """Send all records of these ranges, with keys, headers and timestamps, each to the partition of the same
    number, or to that of its key. Returns when all are acknowledged. Raises HightideError for the first that
    is not; `copied` then has the number that were. `waits_for` is called after each progress, with the next
    thing that is waited for."""
    under_way: deque[tuple[BulkDelivery, int]] = deque()

    sent = 0
    reads = f"the next records of {source.topic}"

    def settle(*, down_to: int) -> None:
        while under_way and (len(under_way) > down_to or under_way[0][0].done()):
            delivery, size_bytes = under_way.popleft()
            waits_for(f"{target} to acknowledge {sent - copied.records:,} records")
            delivery.result()
            copied.records += delivery.record_count
            copied.size_bytes += size_bytes
            done.advance(delivery.record_count)

    batches = ((partition, batch.rows) for partition, batch in read_ranges(reader, source))
    waits_for(reads)
    for partition, rows in gathered(batches):
        sent += rows.num_rows
        # Sending waits where too much is under way.
        waits_for(f"{target} to acknowledge {sent - copied.records:,} records")
        under_way.append(
            (producer.send_arrow(target, rows, partition=None if by_key else partition), rows.nbytes)
        )
        settle(down_to=_UNDER_WAY_MAX)
        waits_for(reads)
    settle(down_to=0)


def gathered(batches: "Iterable[tuple[int, RecordBatch]]") -> "Iterator[tuple[int, RecordBatch]]":
    """Join small batches of one partition, each with its partition. Called by `copy_records`, whose source
    may have a batch for every record."""
    import pyarrow as pa

    waiting: dict[int, _Gathering] = {}
    for partition, rows in batches:
        of_it = waiting.setdefault(partition, _Gathering())
        if of_it.batches and of_it.batches[0].schema != rows.schema:
            yield partition, pa.concat_batches(of_it.taken())
        of_it.batches.append(rows)
        of_it.size_bytes += rows.nbytes
        if of_it.size_bytes >= _SENT_AT_ONCE_BYTES or len(of_it.batches) >= _GATHERED_MAX:
            yield partition, pa.concat_batches(of_it.taken())
    for partition, of_it in waiting.items():
        if of_it.batches:
            yield partition, pa.concat_batches(of_it.taken())


@dataclass(slots=True)
class _Gathering:
    """The waiting batches of one partition. The size is counted as batches come, since adding it up again for
    each would be quadratic."""

    batches: "list[RecordBatch]" = field(default_factory=list)
    size_bytes: int = 0

    def taken(self) -> "list[RecordBatch]":
        """Return all of it, and begin anew."""
        batches, self.batches, self.size_bytes = self.batches, [], 0
        return batches
