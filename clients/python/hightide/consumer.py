"""The blocking consumer, in assign mode: the shell of `ConsumerCore` for threads."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from hightide.addresses import bootstrap_addresses
from hightide.cluster import Cluster
from hightide.consumer_core import ConsumerCore
from hightide.consumer_settings import ConsumerSettings, OffsetReset
from hightide.driver import Driver, now_ms
from hightide.errors import ClosedError, InternalError, InvalidArgumentError
from hightide.fetch_position import Chunk
from hightide.handout import Handout, gather
from hightide.leaders_seen import LeadersSeen
from hightide.offset_at import EARLIEST, LATEST, OffsetAt, offset_at_time
from hightide.operations import Operation, Operations, run
from hightide.records import Record, TopicPartition
from hightide.transport import Transport

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

# While waiting, errors are looked for so often.
_CHECK_S = 0.25


class Consumer:
    """Reads committed records of the partitions that are assigned to it; for use by one thread at a time.

    Records of one partition come in offset order. Nothing connects before the first use.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        topics: Sequence[str] | str | None = None,
        offset_reset: OffsetReset = "earliest",
        fetch_max_bytes: int = 4 << 20,
        fetch_max_wait_ms: int = 500,
        fetch_min_bytes: int = 1,
        prefetch_bytes: int = 32 << 20,
        check_crcs: bool = True,
        request_timeout_ms: int = 30_000,
        unavailable_timeout_ms: int = 60_000,
        client_id: str | None = None,
    ) -> None:
        self._settings = ConsumerSettings(
            offset_reset=offset_reset,
            fetch_max_bytes=fetch_max_bytes,
            fetch_max_wait_ms=fetch_max_wait_ms,
            fetch_min_bytes=fetch_min_bytes,
            prefetch_bytes=prefetch_bytes,
            check_crcs=check_crcs,
            request_timeout_ms=request_timeout_ms,
            unavailable_timeout_ms=unavailable_timeout_ms,
        )
        self._bootstrap = bootstrap_addresses(bootstrap)
        names = [topics] if isinstance(topics, str) else list(topics or ())
        self._changed = threading.Condition(threading.Lock())
        self._seen = LeadersSeen()
        self._core = ConsumerCore(self._settings, Cluster(self._bootstrap, self._seen), names)
        self._handout = Handout(self._core)
        self._transport = Transport(client_id)
        self._driver = Driver(self._core, self._transport, self._changed, "hightide-consumer")
        self._closed = False

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions from now on, and no others. Partitions that stay keep their position; new
        ones start as offset_reset says (earliest for "error")."""
        with self._changed:
            self._check_open()
            self._handout.give_up()
            self._core.assign(partitions)
            self._drive()

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that are assigned, sorted. With `topics`, known after the first use."""
        self._wait_for_assignment()
        with self._changed:
            return tuple(sorted(self._core.positions))

    def __iter__(self) -> Iterator[Record]:
        """Every record, for ever: waits for new ones at the end. Errors as of poll()."""
        while True:
            if not self._handout.has_records:
                chunk = self._next_chunk(None)
                assert chunk is not None, "without a timeout there is a chunk"
                self._handout.begin(chunk)
            yield from self._handout.iterate()

    def read_to_end(self) -> Iterator[Record]:
        """Every record up to the end offsets as they are when the iteration starts; then it stops."""
        self._wait_for_assignment()
        ends = self.end_offsets(self.assignment)
        waiting = {partition for partition, end in ends.items() if self.position(partition) < end}
        overshot: set[TopicPartition] = set()
        try:
            while waiting:
                if not self._handout.has_records:
                    chunk = self._next_chunk(None)
                    assert chunk is not None, "without a timeout there is a chunk"
                    self._handout.begin(chunk)
                partition = self._handout.partition
                assert partition is not None, "records are of a partition"
                for record in self._handout.iterate():
                    if record.offset + 1 >= ends[partition]:
                        waiting.discard(partition)
                    if record.offset < ends[partition]:
                        yield record
                    else:
                        overshot.add(partition)
        finally:
            # What is newer than the end was only passed over; the next poll() begins there.
            for partition in overshot:
                self.seek(partition, ends[partition])

    def poll(self, timeout_s: float = 1.0, max_records: int = 500) -> list[Record]:
        """The next records; an empty list where none came in time. Raises BrokersUnavailableError,
        UnknownTopicError (deleted), OffsetOutOfRangeError (offset_reset="error"), CorruptBatchError,
        ClosedError."""
        records: list[Record] = []
        timeout: float | None = timeout_s
        while len(records) < max_records:
            if not self._handout.has_records:
                chunk = self._next_chunk(timeout)
                if chunk is None:
                    break
                self._handout.begin(chunk)
            taken = self._handout.take(max_records - len(records))
            if not records and len(taken) == max_records:
                return taken
            records += taken
            timeout = 0.0
        return records

    def poll_arrow(self, timeout_s: float = 1.0) -> "pa.RecordBatch":
        """The next rows of one partition, with the columns topic, partition, offset, timestamp, key, value
        and, where records have them, headers. No rows where none came in time. Errors as of poll()."""
        with self._changed:
            self._handout.give_up()
        chunk = self._next_chunk(timeout_s)
        chunks: list[Chunk] = []
        if chunk is not None:
            with self._changed:
                self._core.put_back(chunk)
                chunks = gather(self._core)
                if self._core.wants_poll:
                    self._driver.poke()
        batch = self._handout.as_arrow(chunks)
        with self._changed:
            for each in chunks:
                self._core.handed_out(each, each.next_offset)
        return batch

    def _next_chunk(self, timeout_s: float | None) -> Chunk | None:
        """Wait for the next batch. Raises what poll() documents."""
        deadline_ms = None if timeout_s is None else now_ms() + timeout_s * 1000
        with self._changed:
            self._drive()
            self._handout.settle()
            while True:
                self._check_open()
                chunk = self._core.next_chunk()
                if self._core.wants_poll:
                    self._driver.poke()
                if chunk is not None:
                    return chunk
                now = now_ms()
                self._core.raise_errors(now)
                if self._core.is_assigned and not self._core.positions:
                    raise InvalidArgumentError("nothing is assigned; give topics= or call assign() first")
                if deadline_ms is not None and now >= deadline_ms:
                    return None
                left_s = _CHECK_S if deadline_ms is None else (deadline_ms - now) / 1000
                self._changed.wait(min(left_s, _CHECK_S))

    def _drive(self) -> None:
        self._check_open()
        self._driver.start()
        if self._core.wants_poll or self._core.wake_at_ms is None:
            self._driver.poke()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this consumer is closed")
        if self._driver.failure is not None:
            raise InternalError(f"the fetching thread failed: {self._driver.failure!r}")

    def _wait_for_assignment(self) -> None:
        with self._changed:
            self._drive()
            while not self._core.is_assigned:
                self._check_open()
                self._core.raise_errors(now_ms())
                self._changed.wait(_CHECK_S)

    def _reset(self, partitions: Iterable[TopicPartition], look_up: OffsetAt) -> None:
        with self._changed:
            self._check_open()
            self._handout.give_up()
            for partition in partitions:
                self._core.reset(partition, look_up)
            self._drive()

    def _run(self, make: Operation[T]) -> T:
        self._check_open()
        return run(make, self._transport)

    def _operations(self) -> Operations:
        return Operations(self._bootstrap, self._settings.unavailable_timeout_ms, now_ms, self._seen)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from this offset. Raises NotAssignedError, InvalidArgumentError for a negative offset."""
        if offset < 0:
            raise InvalidArgumentError(f"offset {offset} is negative; offsets begin at 0")
        self._wait_for_assignment()
        with self._changed:
            self._handout.give_up()
            self._core.seek(partition, offset)
            self._drive()

    def seek_to_timestamp(self, partition: TopicPartition | None, timestamp: datetime | int) -> None:
        """Read on from the first record at or after a time (aware datetime, or microseconds since 1970), else
        from the end; None means all assigned partitions."""
        look_up = offset_at_time(timestamp)
        self._reset(self.assignment if partition is None else [partition], look_up)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read on from the first offset that exists; without arguments, of all assigned partitions."""
        self._reset(partitions or self.assignment, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read on from the high watermark; without arguments, of all assigned partitions."""
        self._reset(partitions or self.assignment, LATEST)

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that will be handed out. Looks it up where it is not known yet."""
        self._wait_for_assignment()
        with self._changed:
            self._drive()
            while True:
                self._check_open()
                self._handout.settle()
                known = self._core.position_of(partition).position
                if known is not None:
                    return known
                self._core.raise_errors(now_ms())
                self._changed.wait(_CHECK_S)

    def lag(self) -> Mapping[TopicPartition, int]:
        """How many records each assigned partition is behind its high watermark, as last heard of."""
        with self._changed:
            self._handout.settle()
            return {
                partition: max(0, state.high_watermark - (state.position or 0))
                for partition, state in self._core.positions.items()
                if state.high_watermark >= 0
            }

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that exists, asked of the leaders."""
        return self._listed(dict.fromkeys(partitions, EARLIEST))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermark, asked of the leaders."""
        return self._listed(dict.fromkeys(partitions, LATEST))

    def _listed(self, wanted: Mapping[TopicPartition, OffsetAt]) -> dict[TopicPartition, int]:
        found = self._run(self._operations().list_offsets(wanted))
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def offsets_for_times(
        self, times: Mapping[TopicPartition, datetime | int]
    ) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time; None where no committed record is that late."""
        wanted = {partition: offset_at_time(timestamp) for partition, timestamp in times.items()}
        return self._run(self._operations().list_offsets(wanted))

    def partitions_for(self, topic: str) -> tuple[TopicPartition, ...]:
        """All partitions of a topic. Raises UnknownTopicError, BrokersUnavailableError."""
        return self._run(self._operations().partitions_for(topic))

    def close(self) -> None:
        """Stop fetching and let go of everything. Closing twice does nothing."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        self._driver.stop()
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
