# Generated from aio/producer.py by `make blocking`: change that one, not this.
"""The blocking producer: the shell of `ProducerCore` for threads."""

import random
import time
import warnings
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from hightide import tracing
from hightide.argument_checks import checked_name
from hightide.calls.addresses import bootstrap_addresses
from hightide.calls.call_reports import ClientCallbacks
from hightide.calls.credentials import Token, chosen_credentials
from hightide.calls.tls_files import FilePath
from hightide.cluster.metadata import UNKNOWN_TOPIC_PATIENCE_MS, ClusterMetadata
from hightide.errors import (
    BufferFullError,
    ClosedError,
    DeliveryPendingError,
    InternalError,
    UndeliveredError,
    UnknownTopicError,
)
from hightide.moments import checked_microseconds
from hightide.producer_key import ProducerKey
from hightide.producing.arrow_rows import by_partition, cut, rows_of
from hightide.producing.delivery import BulkDelivery, Delivery
from hightide.producing.partition_queue import PartitionQueue, TopicQueues
from hightide.producing.partitioner import KeyPartitioning, Partitioner, PartitionerName
from hightide.producing.pending_batch import RECORD_OVERHEAD_BYTES, PendingBatch, warm_up
from hightide.producing.producer_core import ProducerCore
from hightide.producing.producer_settings import Acks, CompressionName, ProducerSettings
from hightide.producing.record_checks import as_bytes, checked_headers
from hightide.records import RecordMetadata
from hightide.statistics import ErrorCallback, ProducerStatistics
from hightide.transport import at_exit
from hightide.transport.driver import Driver, now_ms, run_callbacks
from hightide.transport.sender import Sender
from hightide.transport.thread_condition import ThreadCondition
from hightide.transport.transport import Transport

if TYPE_CHECKING:
    import pyarrow as pa


class Producer:
    """Sends records; thread-safe. Records are gathered in batches and sent in the background.

    With a `key`, it is the same writer as others of that key, and each sequence is a compare-and-set on the
    log. A batch that meets other records in its place fails with SequenceConflictError, and so do all later
    ones in that partition, until `go_on_at`. A key needs acks="all"; each partition has one request in
    flight.

    `partitioner` chooses the partition of each record with a key: a hash ("crc32c"; "murmur2" as Kafka's Java
    client, "crc32" as librdkafka), or a function of topic, key and number of partitions, which is called
    inside of send().

    `on_error` is called with each CallFailure, of those that are alike once a second at most, and
    `on_statistics` with ProducerStatistics every `statistics_interval_ms`.
    Both are called on the client's thread that sends. They are plain functions, must be quick,
    and may not wait for this producer. One that raises is logged.

    Raises InvalidArgumentError for settings that cannot be used. Nothing connects before the first send().
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        acks: Acks = "all",
        linger_ms: float = 5,
        batch_bytes_max: int = 2 << 20,
        buffer_memory_bytes: int = 64 << 20,
        compression: CompressionName | None = None,
        idempotent: bool = True,
        delivery_timeout_ms: int = 120_000,
        request_timeout_ms: int = 30_000,
        max_block_ms: int = 60_000,
        client_id: str | None = None,
        tls_ca: FilePath | None = None,
        tls_certificate: FilePath | None = None,
        tls_key: FilePath | None = None,
        token: Token | None = None,
        token_file: FilePath | None = None,
        key: ProducerKey | None = None,
        partitioner: PartitionerName | Partitioner = "crc32c",
        on_error: ErrorCallback | None = None,
        on_statistics: Callable[[ProducerStatistics], object] | None = None,
        statistics_interval_ms: int = 60_000,
    ) -> None:
        self._settings = ProducerSettings(
            acks=acks,
            linger_ms=linger_ms,
            batch_bytes_max=batch_bytes_max,
            buffer_memory_bytes=buffer_memory_bytes,
            compression=compression,
            idempotent=idempotent,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            max_block_ms=max_block_ms,
            key=key,
            partitioning=KeyPartitioning(partitioner),
        )
        callbacks = ClientCallbacks(on_error, on_statistics, statistics_interval_ms)
        self._changed = ThreadCondition()
        self._lock = self._changed.lock
        self._sender = Sender(self._changed)
        cluster = ClusterMetadata(bootstrap_addresses(bootstrap))
        self._core = ProducerCore(
            self._settings, cluster, self._sender, Delivery, random.getrandbits(16), random=random.Random()
        )
        # The fast path reads topics from here; closing replaces it with an empty one.
        self._topics: dict[str, TopicQueues] = self._core.topics
        credentials = chosen_credentials(tls_ca, tls_certificate, tls_key, token, token_file)
        self._transport = Transport(client_id, credentials)
        reporter = tracing.Reporter("send", client_id)
        self._driver = Driver(
            self._core,
            self._transport,
            self._changed,
            "hightide-producer",
            reporter,
            self._sender,
            callbacks.reports(self._core.statistics),
        )
        self._sender.core, self._sender.driver = self._core, self._driver
        self._closed = False

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_us: int | None = None,
        headers: Sequence[tuple[str, bytes]] | None = None,
    ) -> Delivery:
        """Take one record; it is sent in the background. Blocks while the buffer is full or the topic is not
        known yet, at most max_block_ms and delivery_timeout_ms. Raises UnknownTopicError,
        UnknownPartitionError, BrokersUnavailableError, BufferFullError, RecordTooLargeError,
        InvalidArgumentError, ClosedError."""
        home = self._topics.get(topic)
        if (
            home is None
            or headers is not None
            or timestamp_us is not None
            or partition is not None
            or type(value) is not bytes
        ):
            return self._send_slowly(topic, value, key, partition, timestamp_us, headers)
        if key is None:
            queue = home.sticky
            size_bytes = RECORD_OVERHEAD_BYTES + len(value)
        elif type(key) is bytes and home.key_hash is not None:
            queue = home.queues[home.key_hash(key) % home.partition_count]
            size_bytes = RECORD_OVERHEAD_BYTES + len(value) + len(key)
        else:
            return self._send_slowly(topic, value, key, partition, timestamp_us, headers)
        with self._lock:
            batch = queue.open
            if batch is not None:
                size_bytes += batch.size_bytes
                if size_bytes <= batch.granted_bytes and batch.headers is None:
                    index = batch.record_count
                    try:
                        batch.keys.append(key)
                        batch.values.append(value)
                        batch.timestamps.append(time.time_ns() // 1000)
                        batch.record_count = index + 1
                    except BaseException:
                        batch.cut(index)
                        raise
                    batch.size_bytes = size_bytes
                    return Delivery(batch, index)
        return self._send_slowly(topic, value, key, partition, timestamp_us, headers)

    def send_and_wait(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_us: int | None = None,
        headers: Sequence[tuple[str, bytes]] | None = None,
    ) -> RecordMetadata:
        """Send one record at once, wait until it is acknowledged, and return its place. It costs a round
        trip: for many records, use send(). Raises as send(), and the error of the delivery."""
        delivery = self.send(
            topic, value, key, partition=partition, timestamp_us=timestamp_us, headers=headers
        )
        return delivery.result()

    def _send_slowly(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_us: int | None,
        headers: Sequence[tuple[str, bytes]] | None,
    ) -> Delivery:
        """Handle all but the common case: checks, the first record of a topic or batch, back-pressure."""
        value = as_bytes("value", value)
        key = as_bytes("key", key)
        headers = checked_headers(headers)
        if timestamp_us is None:
            timestamp_us = time.time_ns() // 1000
        else:
            checked_microseconds("timestamp_us", timestamp_us)
        home = self._topics.get(topic) or self._topic(topic)
        self._until_grown(home, partition)
        queue = home.queue_for(key, partition)
        delivery = self._until_room(
            lambda now: self._core.append(home, queue, key, value, timestamp_us, headers, now), topic
        )
        assert isinstance(delivery, Delivery)
        return delivery

    def _until_room(self, take: Callable[[float], Any], topic: str) -> Any:
        """Let the core take records; while the buffer is full, wait, at most `block_ms`."""
        deadline_ms: float | None = None
        with self._changed:
            while True:
                self._check_open()
                now = now_ms()
                taken = take(now)
                if self._core.wants_poll:
                    self._driver.poke()
                if taken is not None:
                    return taken
                if deadline_ms is None:
                    deadline_ms = now + self._settings.block_ms
                if now >= deadline_ms:
                    raise BufferFullError(
                        f"{self._settings.buffer_memory_bytes} bytes wait for acknowledgement, "
                        f"and no room came free within {self._settings.block_ms} ms, the smaller one of "
                        f"max_block_ms and delivery_timeout_ms",
                        topic=topic,
                    )
                self._changed.wait((deadline_ms - now) / 1000)

    def _topic(self, topic: str) -> TopicQueues:
        """The topic's queues; asks for its metadata the first time, and waits for it at most `block_ms`."""
        checked_name("topic", topic)
        started_ms = now_ms()
        seeker = self._core.seeker
        with self._changed:
            self._check_open()
            self._driver.start()
            at_exit.watch(self._sender)
            if topic not in self._core.topics:
                seeker.want([topic])
                self._driver.poke()
        warm_up()
        with self._changed:
            while True:
                self._check_open()
                home = self._core.queues_of(topic)
                if home is not None:
                    seeker.topics.add(topic)
                    return home
                refusal = seeker.refusal()
                if refusal is not None:
                    raise refusal
                now = now_ms()
                waited_ms = now - started_ms
                patience_ms = 0 if waited_ms >= self._settings.block_ms else UNKNOWN_TOPIC_PATIENCE_MS
                is_patient = seeker.asked_at_ms - started_ms >= patience_ms
                if is_patient and topic in self._core.cluster.missing:
                    seeker.forget(topic)
                    raise UnknownTopicError(f"topic {topic} does not exist")
                if waited_ms >= self._settings.block_ms:
                    raise seeker.unavailable(self._settings.block_ms)
                seeker.want_again([topic], now_ms=now)
                self._driver.poke()
                self._changed.wait(min(0.1, (self._settings.block_ms - waited_ms) / 1000))

    def _until_grown(self, home: TopicQueues, partition: int | None) -> None:
        """Ask for a partition that is not known: the topic may have got it a moment ago. `queue_for` says
        whether it has."""
        if partition is None or partition < home.partition_count:
            return
        end_ms = now_ms() + self._settings.block_ms
        patient_ms = now_ms() + min(UNKNOWN_TOPIC_PATIENCE_MS, self._settings.block_ms)
        seeker = self._core.seeker
        with self._changed:
            while partition >= home.partition_count and seeker.asked_at_ms < patient_ms:
                self._check_open()
                if (now := now_ms()) >= end_ms:
                    return
                seeker.want_again(now_ms=now)
                self._driver.poke()
                self._changed.wait(min(0.1, (end_ms - now) / 1000))

    def go_on_at(self, topic: str, partition: int, next_sequence: int) -> None:
        """Set the sequence of the next record of a partition. Only with a key, and when all that was sent to
        the partition is acknowledged or failed. Records that were refused there before no longer stand in the
        way. Raises InvalidArgumentError, and errors as of send()."""
        home = self._topic(topic)
        self._until_grown(home, partition)
        with self._changed:
            self._core.go_on_at(home, partition, next_sequence)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this producer is closed")
        if self._driver.failure is not None:
            raise InternalError(f"the sender thread failed: {self._driver.failure!r}")

    def send_arrow(
        self, topic: str, records: "pa.RecordBatch | pa.Table", *, partition: int | None = None
    ) -> BulkDelivery:
        """Take all rows of a table with the column `value` and, optionally, `key` (binary or string),
        `timestamp` (timestamp or int64 of us) and `headers`. Equal keys keep their order. Errors as of
        send()."""
        rows = rows_of(records, time.time_ns() // 1000)
        home = self._topic(topic)
        batches: list[PendingBatch] = []
        self._until_grown(home, partition)
        groups = (
            [(partition, rows)]
            if partition is not None
            else by_partition(rows, home.partition_count, home.partition_of)
        )
        for number, group in groups:
            for part, size_bytes in cut(group, self._core.rows_limit(home)):
                with self._lock:
                    queue = home.queue_for(None, number) or self._core.next_sticky(home)
                batches.append(self._take_rows(queue, part, size_bytes))
        return BulkDelivery(tuple(batches))

    def _take_rows(self, queue: PartitionQueue, rows: "pa.RecordBatch", size_bytes: int) -> PendingBatch:
        batch = self._until_room(
            lambda now: self._core.append_arrow(queue, rows, size_bytes, now), queue.topic
        )
        assert isinstance(batch, PendingBatch)
        return batch

    def flush(self, timeout_s: float | None = None) -> None:
        """Send all waiting records, and return when each is acknowledged or failed (see its Delivery). Raises
        UndeliveredError when the time runs out first."""
        with self._changed:
            batches = tuple(self._core.unfinished())
            if batches:
                self._driver.poke()
        try:
            BulkDelivery(batches).exception(timeout_s)
        except DeliveryPendingError:
            count = self.undelivered_count
            raise UndeliveredError(
                f"{count} records are not acknowledged after {timeout_s} s; they are still being sent",
                undelivered_count=count,
            ) from None

    def close(self, timeout_s: float | None = None) -> None:
        """Flush, then close all connections. Raises UndeliveredError if records were left when the time ran
        out; their deliveries fail. Closing twice does nothing."""
        if self._changed.home.is_elsewhere:
            return
        with self._changed:
            if self._closed:
                return
            self._topics = {}
        try:
            self.flush(timeout_s)
        except UndeliveredError:
            # The error is raised below, with the final count.
            pass
        finally:
            left = self._end()
            if left is not None:
                raise left

    def _end(self) -> UndeliveredError | None:
        """Close all connections and fail the deliveries that are left. Returns an error with their number, or
        None."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._driver.stop()
        self._transport.close()
        at_exit.forget(self._sender)
        count = self.undelivered_count
        if not count:
            return None
        error = UndeliveredError(
            f"the producer was closed with {count} records not acknowledged", undelivered_count=count
        )
        with self._changed:
            self._core.abandon(error)
            callbacks, self._core.callbacks = self._core.callbacks, []
        run_callbacks(callbacks)
        return error

    @property
    def undelivered_count(self) -> int:
        """The number of records that are neither acknowledged nor failed yet."""
        with self._changed:
            return self._core.undelivered_count

    @property
    def throttled_ms(self) -> float:
        """For how long brokers have made this producer wait so far, since its quota was used up: the sum for
        all brokers."""
        with self._changed:
            return self._core.throttles.total_ms

    def partitions_for(self, topic: str) -> int:
        """The number of partitions of a topic. Errors as of send()."""
        home = self._topic(topic)
        return home.partition_count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        # It takes no lock: the garbage collector shows what was not closed.
        state = "closed" if self._closed else "open" if self._driver.is_started else "not used yet"
        return f"<{type(self).__name__} of {', '.join(self._core.cluster.bootstrap)}: {state}>"

    def __del__(self) -> None:
        # A producer that was refused its settings, or was never used, has left nothing behind.
        if getattr(self, "_closed", True) or not self._driver.is_started or self._changed.home.is_elsewhere:
            return
        self._sender.let_go()
        warnings.warn(f"unclosed {self!r}: call its close()", ResourceWarning, stacklevel=2, source=self)
