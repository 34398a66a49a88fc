"""A reader of exact ranges of partitions, used by Spark's tasks and by tools that compare replicas.

It is the shell of `RangeCore` for threads. It has no thread of its own: while the caller consumes the rows of
one fetch, gRPC carries out the next one.
"""

import queue
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from hightide.batch.header import BatchHeader
from hightide.calls.addresses import bootstrap_addresses
from hightide.calls.call import Call
from hightide.calls.credentials import Token, chosen_credentials
from hightide.calls.tls_files import FilePath
from hightide.cluster.metadata import ClusterMetadata
from hightide.cluster.operations import Pause
from hightide.consuming.corrupt_batches import CorruptBatches, OnCorruptBatch, SkippedBatches, check_policy
from hightide.consuming.fetch_position import FetchedBatch
from hightide.consuming.range_core import RangeCore, RangeReadSettings, WantedRange
from hightide.errors import AddressUnreachableError, ClosedError, HightideError, TokenNotSentError
from hightide.records import TopicPartition
from hightide.transport.driver import decoded as decoded_outcome
from hightide.transport.driver import now_ms
from hightide.transport.notices import log_notice
from hightide.transport.thread_condition import ThreadCondition
from hightide.transport.transport import Transport

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class RangeBatch:
    """The rows of one batch of the log that are in the range. `base_offset` is that of the first row; `rows`
    has the columns key, value, timestamp, and headers where the batch has them (`hightide.batch.body.SCHEMA`,
    SCHEMA_WITH_HEADERS), over the received bytes. `header` is that of the whole batch."""

    header: BatchHeader
    base_offset: int
    rows: "pa.RecordBatch"


class RangeReader:
    """Reads ranges of offsets; thread-safe. One reader is enough for a process: it keeps its connections and
    its knowledge of leaders.

    Raises InvalidArgumentError for settings that cannot be used. Nothing connects before the first read.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        client_id: str | None = None,
        tls_ca: FilePath | None = None,
        tls_certificate: FilePath | None = None,
        tls_key: FilePath | None = None,
        token: Token | None = None,
        token_file: FilePath | None = None,
        fetch_max_bytes: int = 4 << 20,
        prefetch_bytes: int = 16 << 20,
        request_timeout_ms: int = 30_000,
        unavailable_timeout_ms: int = 60_000,
        check_crcs: bool = True,
        on_corrupt_batch: OnCorruptBatch = "fail",
    ) -> None:
        self._settings = RangeReadSettings(
            fetch_max_bytes=fetch_max_bytes,
            prefetch_bytes=prefetch_bytes,
            request_timeout_ms=request_timeout_ms,
            unavailable_timeout_ms=unavailable_timeout_ms,
            check_crcs=check_crcs,
            on_corrupt_batch=on_corrupt_batch,
        )
        self._cluster = ClusterMetadata(bootstrap_addresses(bootstrap))
        self._lock = ThreadCondition()
        credentials = chosen_credentials(tls_ca, tls_certificate, tls_key, token, token_file)
        self._transport = Transport(client_id, credentials)
        self._corrupt = CorruptBatches(on_corrupt_batch, log_notice)
        self._closed = False

    def read(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        start: int,
        end: int,
        *,
        replica: int | None = None,
        on_corrupt_batch: OnCorruptBatch | None = None,
    ) -> Iterator[RangeBatch]:
        """Yield exactly the records [start, end) in order, whichever leaders die meanwhile. They come from
        the topic with this id, never from another topic of its name. With `replica`, they are read from the
        replica on that broker, as far as it knows them to be committed. If the end is not committed yet, the
        read waits for it. A batch that no reader can open fails the read (UnreadableBatchError) or is left
        out, depending on `on_corrupt_batch` of the reader or of this call. A batch whose bytes were damaged
        fails it (CorruptBatchError).

        Each loss has its error: RangeDeletedError (retention), RangeLostError (unclean election),
        TopicRecreatedError, UnknownTopicError (deleted), UnknownPartitionError (shrunk). Errors that may pass
        are raised only when no record came for unavailable_timeout_ms: BrokersUnavailableError,
        PartitionOfflineError, OffsetNotAvailableError, AddressUnreachableError. Raises InvalidArgumentError,
        ClosedError.
        """
        wanted = WantedRange(TopicPartition(topic, partition), topic_id, start, end, replica)
        if self._closed:
            raise ClosedError("this range reader is closed")
        if on_corrupt_batch is not None:
            check_policy(on_corrupt_batch)
        return self._read(RangeCore(wanted, self._settings, self._cluster, now_ms), on_corrupt_batch)

    @property
    def skipped_batches(self) -> Mapping[TopicPartition, SkippedBatches]:
        """The batches that were left out of each partition so far, by all reads together."""
        return self._corrupt.skipped

    def _read(self, core: RangeCore, on_corrupt_batch: OnCorruptBatch | None) -> Iterator[RangeBatch]:
        settings = self._settings
        ahead: _FetchAhead | None = None
        try:
            while ahead is not None or not core.is_done:
                chunks = (ahead or _FetchAhead(core, self._transport, self._lock)).result()
                ahead = None
                waiting_bytes = sum(len(chunk.batch) for chunk in chunks)
                for chunk in chunks:
                    has_room = waiting_bytes + settings.fetch_max_bytes <= settings.prefetch_bytes
                    if ahead is None and has_room and not core.is_done:
                        ahead = _FetchAhead(core, self._transport, self._lock)
                    waiting_bytes -= len(chunk.batch)
                    batch = self._range_batch(chunk, core.wanted.end, on_corrupt_batch)
                    if batch is not None:
                        yield batch
        finally:
            if ahead is not None:
                ahead.cancel()

    def _range_batch(self, chunk: FetchedBatch, end: int, policy: OnCorruptBatch | None) -> RangeBatch | None:
        base_offset = chunk.header.base_offset + chunk.skip
        rows = self._corrupt.opened(chunk, policy)
        if rows is None:
            return None
        if chunk.next_offset > end:
            rows = rows.slice(0, end - base_offset)
        return RangeBatch(chunk.header, base_offset, rows)

    def close(self) -> None:
        """Close all connections; reads under way fail with ClosedError. Closing twice does nothing."""
        self._closed = True
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _FetchAhead:
    """A `RangeCore.fetch` whose first call is under way. The thread that waits for its result does the
    rest."""

    def __init__(self, core: RangeCore, transport: Transport, lock: ThreadCondition) -> None:
        self._operation = core.fetch()
        self._transport = transport
        self._lock = lock
        self._outcomes: queue.SimpleQueue[bytes | HightideError] = queue.SimpleQueue()
        self._future: Any = None
        self._step: Call[Any] | Pause
        self._go_on(None)

    def _go_on(self, outcome: Any) -> None:
        """Pass the call's outcome to the core, and make the call that it asks for next. Raises StopIteration
        with the result, and errors as `RangeCore.fetch`."""
        with self._lock:
            if isinstance(outcome, HightideError):
                self._step = self._operation.throw(outcome)
            else:
                self._step = self._operation.send(outcome)
        if isinstance(self._step, Call):
            try:
                self._future = self._transport.start(self._step, self._step.encode(), self._done)
            except (AddressUnreachableError, TokenNotSentError) as error:
                self._outcomes.put(error)

    def _done(self, call: Call[Any], outcome: bytes | HightideError) -> None:
        self._outcomes.put(outcome)

    def result(self) -> list[FetchedBatch]:
        """Wait for the fetch to end and return its batches. Raises as `RangeCore.fetch`."""
        try:
            while True:
                if isinstance(self._step, Pause):
                    time.sleep(self._step.pause_ms / 1000)
                    self._go_on(None)
                else:
                    self._go_on(decoded_outcome(self._step, self._outcomes.get()))
        except StopIteration as ended:
            chunks: list[FetchedBatch] = ended.value
            return chunks

    def cancel(self) -> None:
        """Give the fetch up: its result is no longer wanted."""
        if self._future is not None:
            self._future.cancel()
        self._operation.close()
