"""Copies records from topic to topic, in the form in which they lie in the log."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hightide_cli.progress import WorkDone
from hightide_cli.record_ranges import TopicRanges, read_ranges

if TYPE_CHECKING:
    from hightide import BulkDelivery, Producer, RangeReader

# Small batches are put together up to this size: with a writer that is counted, one is under way a partition.
_SENT_AT_ONCE_BYTES: Final = 1 << 20
# So many deliveries are waited for at most before the oldest one has to be done.
_UNDER_WAY_MAX: Final = 64


@dataclass(slots=True)
class Copied:
    """What is acknowledged by the target."""

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
) -> None:
    """Send all records of these ranges, with keys, headers and timestamps, each to the partition of the same
    number, or to that of its key. Returns when all are acknowledged. Raises HightideError for the first that
    is not; `copied` then tells how many were."""
    under_way: deque[tuple[BulkDelivery, int]] = deque()

    def settle(*, down_to: int) -> None:
        while under_way and (len(under_way) > down_to or under_way[0][0].done()):
            delivery, size_bytes = under_way.popleft()
            delivery.result()
            copied.records += delivery.record_count
            copied.size_bytes += size_bytes
            done.advance(delivery.record_count)

    for partition, rows in _gathered(reader, source):
        under_way.append(
            (producer.send_arrow(target, rows, partition=None if by_key else partition), rows.nbytes)
        )
        settle(down_to=_UNDER_WAY_MAX)
    producer.flush()
    settle(down_to=0)


def _gathered(reader: "RangeReader", source: TopicRanges) -> Iterator[tuple[int, Any]]:
    """The rows of one partition after the other's, small batches put together."""
    import pyarrow as pa

    waiting: dict[int, list[Any]] = {}
    for partition, batch in read_ranges(reader, source):
        rows = waiting.setdefault(partition, [])
        if rows and rows[0].schema != batch.rows.schema:
            yield partition, pa.concat_batches(rows)
            rows.clear()
        rows.append(batch.rows)
        if sum(each.nbytes for each in rows) >= _SENT_AT_ONCE_BYTES:
            yield partition, pa.concat_batches(rows)
            rows.clear()
    for partition, rows in waiting.items():
        if rows:
            yield partition, pa.concat_batches(rows)
