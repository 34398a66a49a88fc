"""Reading a topic and printing its records: the work of `hightide topic consume` outside of a group."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

from hightide import Consumer, Record, TopicPartition
from hightide.consuming.corrupt_batches import OnCorruptBatch
from hightide.moments import moment_at

from hightide_cli.command_line.client_arguments import ClientArguments
from hightide_cli.printing.progress import progress
from hightide_cli.records.positions import Anchor, Position
from hightide_cli.records.printer import RecordPrinter
from hightide_cli.records.ranges import check_start, range_of

_POLL_TIMEOUT_S = 0.5


@dataclass(frozen=True, slots=True)
class Reading:
    """The range to read. `until` is where to stop; None: never. No partitions means all of them."""

    start: Position
    until: Position | None = None
    partitions: Sequence[int] = ()
    records_max: int | None = None
    on_corrupt_batch: OnCorruptBatch = "fail"


def consume_records(
    topic: str, reading: Reading, printer: RecordPrinter, output: BinaryIO, *, cluster: ClientArguments
) -> None:
    """Print records until the end, the wanted number, or Ctrl-C."""
    with Consumer(**cluster, offset_reset="error", on_corrupt_batch=reading.on_corrupt_batch) as consumer:
        assigned = [TopicPartition(topic, each) for each in reading.partitions] or consumer.partitions_for(
            topic
        )
        consumer.assign(assigned)
        if reading.start.anchor is Anchor.OFFSET:
            check_start(topic, reading.start, consumer.end_offsets(assigned).values())
        seek(consumer, assigned, reading.start)
        batches = (
            _for_ever(consumer)
            if reading.until is None
            else _bounded(consumer, topic, _ends(consumer, assigned, reading.until), reading.records_max)
        )
        records = (record for batch in batches for record in batch)
        try:
            wanted = islice(records, reading.records_max)
            print_records(wanted, printer, output, is_followed=reading.until is None)
        finally:
            batches.close()


def print_records(
    records: Iterable[Record], printer: RecordPrinter, output: BinaryIO, *, is_followed: bool
) -> None:
    """Print these records. Ctrl-C ends the following of a topic. It raises KeyboardInterrupt where records
    are read to an end: what is printed then is not all of them."""
    try:
        for record in records:
            output.write(printer.render(record))
            if is_followed:
                # A user who follows a topic wants to see a record when it comes.
                output.flush()
    except KeyboardInterrupt:
        if not is_followed:
            raise
    finally:
        output.flush()


def seek(consumer: Consumer, assigned: Iterable[TopicPartition], position: Position) -> None:
    """Bring the consumer to this position of each partition."""
    match position.anchor:
        case Anchor.EARLIEST:
            consumer.seek_to_beginning()
        case Anchor.LATEST:
            consumer.seek_to_end()
        case Anchor.TIMESTAMP:
            consumer.seek_to_timestamp(None, moment_at(position.value))
        case Anchor.OFFSET:
            for partition in assigned:
                consumer.seek(partition, position.value)
        case Anchor.BEFORE_END:
            first = consumer.beginning_offsets(assigned)
            for partition, end in consumer.end_offsets(assigned).items():
                consumer.seek(partition, max(end - position.value, first[partition]))


def _ends(
    consumer: Consumer, assigned: Sequence[TopicPartition], until: Position
) -> Mapping[TopicPartition, int]:
    """The end for each partition: its present end, or an earlier offset."""
    latest = consumer.end_offsets(assigned)
    wanted: Mapping[TopicPartition, int | None]
    match until.anchor:
        case Anchor.EARLIEST:
            wanted = dict.fromkeys(assigned, 0)
        case Anchor.LATEST:
            return latest
        case Anchor.OFFSET:
            wanted = dict.fromkeys(assigned, until.value)
        case Anchor.BEFORE_END:
            wanted = {each: end - until.value for each, end in latest.items()}
        case Anchor.TIMESTAMP:
            wanted = consumer.offsets_for_times(dict.fromkeys(assigned, moment_at(until.value)))
    return {each: range_of(each.partition, 0, latest[each], 0, wanted[each]).end for each in assigned}


def _bounded(
    consumer: Consumer, topic: str, ends: Mapping[TopicPartition, int], records_max: int | None
) -> Generator[Sequence[Record]]:
    """Yield every record before the ends. A partition that has come to its end is paused, so that no more of
    it is fetched."""
    left = dict[TopicPartition, int]()
    for partition, end in ends.items():
        start = consumer.position(partition)
        if start < end:
            left[partition] = end - start
        else:
            consumer.pause(partition)
    total = min(sum(left.values()), records_max or sum(left.values()))
    with progress(f"reading {topic}", total, prints_meanwhile=True) as done:
        while left:
            records = consumer.poll(_POLL_TIMEOUT_S)
            wanted = [each for each in records if each.offset < ends[TopicPartition(topic, each.partition)]]
            yield wanted
            done.advance(len(wanted))
            read = {TopicPartition(topic, each.partition) for each in records}
            # Batches that are left out bring a partition to its end as well.
            for partition in (read | consumer.skipped_batches().keys()) & left.keys():
                if consumer.position(partition) >= ends[partition]:
                    del left[partition]
                    consumer.pause(partition)


def _for_ever(consumer: Consumer) -> Generator[Sequence[Record]]:
    while True:
        yield consumer.poll(timeout_s=_POLL_TIMEOUT_S)
