"""The offsets of a topic that a command works on, and reading exactly those."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hightide_cli.records.positions import Anchor, Position

if TYPE_CHECKING:
    from hightide import Admin, RangeBatch, RangeReader, Record, TopicPartition

Command = TypeVar("Command", bound=Callable[..., Any])

# This many partitions are read at once: each has a fetch under way, whose answer waits in memory.
_READ_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets [start, end) of one partition, all of which existed when it was asked."""

    partition: int
    start: int
    end: int

    @property
    def count(self) -> int:
        """The number of records."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class TopicRanges:
    """The ranges to read of one topic, never of another one of its name. `earliest` has, by partition, where
    its log begins."""

    topic: str
    topic_id: bytes
    partition_count: int
    ranges: tuple[OffsetRange, ...]
    earliest: Mapping[int, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of records."""
        return sum(each.count for each in self.ranges)


def partitions_option(command: Command) -> Command:
    """Add --partition, for commands that work on some partitions of one topic."""
    return click.option(
        "-p",
        "--partition",
        "partitions",
        type=int,
        multiple=True,
        help="Only this partition; repeatable.",
    )(command)


def range_options(command: Command) -> Command:
    """Add --from and --until, for commands that work on existing records, and end."""
    begin = click.option(
        "--from",
        "start",
        metavar="POSITION",
        default="earliest",
        show_default=True,
        help="Where to begin; see POSITION of `topic consume`.",
    )
    end = click.option(
        "--until", metavar="POSITION", help="Stop before this position; the default is the present end."
    )
    return begin(end(command))


def range_of(partition: int, earliest: int, latest: int, start: int | None, end: int | None) -> OffsetRange:
    """Cut the wanted range to the existing one. None stands for a time for which no record is late enough:
    the end."""
    first = latest if start is None else min(max(start, earliest), latest)
    last = latest if end is None else min(max(end, earliest), latest)
    return OffsetRange(partition, first, max(first, last))


def check_start(topic: str, start: Position, ends: Iterable[int]) -> None:
    """Raise click.BadParameter for an offset that no partition has reached: nothing would be read, without a
    word. It is rather a time, which has an @ before it."""
    last = max(ends, default=0)
    if start.anchor is Anchor.OFFSET and start.value > last:
        raise click.BadParameter(
            f"offset {start.value} is behind the end of each partition of {topic}, at most {last}; a time is "
            f"@{start.value}, in milliseconds",
            param_hint="--from",
        )


def topic_ranges(
    admin: "Admin", topic: str, partitions: Sequence[int], start: Position, until: Position | None
) -> TopicRanges:
    """Look up the offsets between two positions, of these partitions or of all. Raises HightideError."""
    from hightide import TopicPartition

    (described,) = admin.describe_topics([topic])
    numbers = sorted(set(partitions)) or [each.partition for each in described.partitions]
    places = [TopicPartition(topic, number) for number in numbers]
    earliest = {place: offset or 0 for place, offset in admin.list_offsets(places, "earliest").items()}
    latest = {place: offset or 0 for place, offset in admin.list_offsets(places, "latest").items()}
    check_start(topic, start, latest.values())
    starts = _offsets_at(admin, start, earliest, latest)
    ends = latest if until is None else _offsets_at(admin, until, earliest, latest)
    return TopicRanges(
        topic,
        described.topic_id,
        len(described.partitions),
        tuple(
            range_of(place.partition, earliest[place], latest[place], starts[place], ends[place])
            for place in places
        ),
        {place.partition: offset for place, offset in earliest.items()},
    )


def _offsets_at(
    admin: "Admin",
    position: Position,
    earliest: "dict[TopicPartition, int]",
    latest: "dict[TopicPartition, int]",
) -> "dict[TopicPartition, int | None]":
    match position.anchor:
        case Anchor.EARLIEST:
            return dict(earliest)
        case Anchor.LATEST:
            return dict(latest)
        case Anchor.OFFSET:
            return dict.fromkeys(latest, position.value)
        case Anchor.BEFORE_END:
            return {place: end - position.value for place, end in latest.items()}
        case Anchor.TIMESTAMP:
            from hightide.moments import moment_at

            return admin.list_offsets(latest, moment_at(position.value))


def read_ranges(
    reader: "RangeReader", wanted: TopicRanges, *, at_once: int = _READ_AT_ONCE
) -> Iterator[tuple[int, "RangeBatch"]]:
    """Every batch with its partition, in order within each; partitions take turns. Raises as
    `RangeReader.read`."""
    waiting = [each for each in wanted.ranges if each.count]
    waiting.reverse()
    reading: list[tuple[int, Iterator[RangeBatch]]] = []
    while waiting or reading:
        while waiting and len(reading) < at_once:
            each = waiting.pop()
            batches = reader.read(wanted.topic, wanted.topic_id, each.partition, each.start, each.end)
            reading.append((each.partition, batches))
        going_on = []
        for partition, batches in reading:
            batch = next(batches, None)
            if batch is not None:
                yield partition, batch
                going_on.append((partition, batches))
        reading = going_on


def records_in(
    topic: str, partition: int, batch: "RangeBatch", rows: Iterable[int] | None = None
) -> Iterator["Record"]:
    """The records of a batch, or those of the given rows."""
    from hightide import Record

    columns = batch.rows
    keys, values, timestamps = columns.column(0), columns.column(1), columns.column(2).cast("int64")
    headers = columns.column(3) if columns.num_columns > 3 else None
    for row in range(columns.num_rows) if rows is None else rows:
        found = None if headers is None else headers[row].as_py()
        yield Record(
            topic,
            partition,
            batch.base_offset + row,
            timestamps[row].as_py(),
            keys[row].as_py(),
            values[row].as_py(),
            tuple((each["key"], each["value"]) for each in found if each is not None) if found else (),
        )
