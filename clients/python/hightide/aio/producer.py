"""The asyncio producer: the shell of `ProducerCore` for one event loop."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from hightide import tracing
from hightide.aio.delivery import BulkDelivery, Delivery
from hightide.aio.driver import Driver
from hightide.calls.addresses import bootstrap_addresses
from hightide.cluster.metadata import UNKNOWN_TOPIC_PATIENCE_MS, Cluster
from hightide.errors import BufferFullError, ClosedError, UndeliveredError, UnknownTopicError
from hightide.producer_key import ProducerKey
from hightide.producing import at_exit
from hightide.producing.arrow_rows import by_partition, cut, rows_of
from hightide.producing.lane import TopicLanes
from hightide.producing.pending_batch import PendingBatch, warm_up
from hightide.producing.producer_core import ProducerCore
from hightide.producing.producer_settings import Acks, CompressionName, ProducerSettings
from hightide.producing.record_checks import as_bytes, checked_headers, checked_timestamp
from hightide.transport.driver import now_ms, run_callbacks
from hightide.transport.transport import AioTransport

if TYPE_CHECKING:
    import pyarrow as pa


class Producer:
    """Sends records; for one event loop. See `hightide.Producer`, whose settings and errors are the same."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        acks: Acks = "all",
        linger_ms: float = 5,
        batch_bytes_max: int = 1 << 20,
        buffer_memory_bytes: int = 64 << 20,
        compression: CompressionName | None = None,
        idempotent: bool = True,
        delivery_timeout_ms: int = 120_000,
        request_timeout_ms: int = 30_000,
        max_block_ms: int = 60_000,
        client_id: str | None = None,
        key: ProducerKey | None = None,
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
        )
        cluster = Cluster(bootstrap_addresses(bootstrap))
        self._core = ProducerCore(
            self._settings, cluster, self, Delivery, random.getrandbits(16), random=random.Random()
        )
        self._transport = AioTransport(client_id)
        reporter = tracing.Reporter("send", client_id)
        self._driver = Driver(self._core, self._transport, "hightide-aio-producer", reporter)
        self._closed = False
        self._watched = _AtExit(self._core)
        at_exit.watch(self._watched)

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_us: int | None = None,
        headers: Sequence[tuple[str, bytes]] | None = None,
    ) -> Delivery:
        """Take one record; it is sent in the background. Await the Delivery to know where it went. Waits up
        to max_block_ms while the buffer is full or the topic is not known yet. Raises as
        `hightide.Producer.send`."""
        value = as_bytes("value", value)
        key = as_bytes("key", key)
        headers = checked_headers(headers)
        timestamp_us = time.time_ns() // 1000 if timestamp_us is None else checked_timestamp(timestamp_us)
        home = self._core.topics.get(topic) or await self._topic(topic)
        if partition is not None and partition >= home.partition_count:
            await self._until_grown(home, partition)
        lane = home.lane_for(key, partition)
        delivery = await self._until_room(
            lambda now: self._core.append(home, lane, key, value, timestamp_us, headers, now), topic
        )
        assert isinstance(delivery, Delivery)
        return delivery

    async def send_arrow(
        self, topic: str, records: "pa.RecordBatch | pa.Table", *, partition: int | None = None
    ) -> BulkDelivery:
        """Take all rows of a table; see `hightide.Producer.send_arrow`."""
        rows = rows_of(records, time.time_ns() // 1000)
        home = await self._topic(topic)
        batches: list[PendingBatch] = []
        if partition is not None and partition >= home.partition_count:
            await self._until_grown(home, partition)
        groups = [(partition, rows)] if partition is not None else by_partition(rows, home.partition_count)
        for number, group in groups:
            for part, size_bytes in cut(group, home.batch_limit_bytes):
                lane = self._core.next_sticky(home) if number is None else home.lane_for(None, number)
                batches.append(await self._take_rows(home, lane, part, size_bytes))
        return BulkDelivery(tuple(batches))

    async def _take_rows(self, home: TopicLanes, lane: Any, rows: Any, size_bytes: int) -> PendingBatch:
        batch = await self._until_room(
            lambda now: self._core.append_arrow(lane, rows, size_bytes, now), home.topic
        )
        assert isinstance(batch, PendingBatch)
        return batch

    async def _until_room(self, take: Callable[[float], Any], topic: str) -> Any:
        deadline_ms: float | None = None
        while True:
            self._check_open()
            now = now_ms()
            taken = take(now)
            if self._core.wants_poll:
                self._driver.poke()
            if taken is not None:
                return taken
            if deadline_ms is None:
                deadline_ms = now + self._settings.max_block_ms
            if now >= deadline_ms:
                raise BufferFullError(
                    f"{self._settings.buffer_memory_bytes} bytes wait for acknowledgement, "
                    f"and no room came free within max_block_ms={self._settings.max_block_ms}",
                    topic=topic,
                )
            await self._driver.changed((deadline_ms - now) / 1000)

    async def _topic(self, topic: str) -> TopicLanes:
        started_ms = now_ms()
        self._check_open()
        self._driver.start()
        warm_up()
        seeker = self._core.seeker
        while True:
            self._check_open()
            home = self._core.lanes_of(topic)
            if home is not None:
                seeker.topics.add(topic)
                return home
            now = now_ms()
            waited_ms = now - started_ms
            patience_ms = 0 if waited_ms >= self._settings.max_block_ms else UNKNOWN_TOPIC_PATIENCE_MS
            is_patient = seeker.asked_at_ms - started_ms >= patience_ms
            if is_patient and topic in self._core.cluster.missing:
                seeker.forget(topic)
                raise UnknownTopicError(f"topic {topic} does not exist")
            if waited_ms >= self._settings.max_block_ms:
                raise seeker.unavailable(self._settings.max_block_ms)
            seeker.want_again([topic], now_ms=now)
            self._driver.poke()
            await self._driver.changed(min(0.1, (self._settings.max_block_ms - waited_ms) / 1000))

    async def _until_grown(self, home: TopicLanes, partition: int) -> None:
        end_ms = now_ms() + self._settings.max_block_ms
        patient_ms = now_ms() + min(UNKNOWN_TOPIC_PATIENCE_MS, self._settings.max_block_ms)
        seeker = self._core.seeker
        while partition >= home.partition_count and seeker.asked_at_ms < patient_ms:
            self._check_open()
            if (now := now_ms()) >= end_ms:
                return
            seeker.want_again(now_ms=now)
            self._driver.poke()
            await self._driver.changed(min(0.1, (end_ms - now) / 1000))

    async def go_on_at(self, topic: str, partition: int, next_sequence: int) -> None:
        """Which sequence a producer with a key sends next; see `hightide.Producer.go_on_at`."""
        home = await self._topic(topic)
        await self._until_grown(home, partition)
        self._core.go_on_at(home, partition, next_sequence)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this producer is closed")

    async def flush(self, timeout_s: float | None = None) -> None:
        """Send what waits and return when all of it is acknowledged or failed (each Delivery tells).
        Raises UndeliveredError when the time runs out first."""
        batches = tuple(self._core.unfinished())
        if batches:
            self._driver.poke()
        try:
            async with asyncio.timeout(timeout_s):
                await BulkDelivery(batches).settled()
        except TimeoutError:
            count = self.undelivered_count
            raise UndeliveredError(
                f"{count} records are not acknowledged after {timeout_s} s; they are still being sent",
                undelivered_count=count,
            ) from None

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush, then let go of everything. Raises UndeliveredError where records were left when the time ran
        out; those deliveries fail. Closing twice does nothing."""
        if self._closed:
            return
        try:
            await self.flush(timeout_s)
        except UndeliveredError:
            # Told below, with the final count.
            pass
        finally:
            self._closed = True
            at_exit.forget(self._watched)
            await self._driver.stop()
            await self._transport.close()
        count = self.undelivered_count
        if not count:
            return
        error = UndeliveredError(
            f"the producer was closed with {count} records not acknowledged", undelivered_count=count
        )
        self._core.abandon(error)
        callbacks, self._core.callbacks = self._core.callbacks, []
        run_callbacks(callbacks)
        raise error

    def hurry(self, batch: PendingBatch) -> None:
        """Someone waits for this batch: it does not linger. Called by deliveries, on the loop."""
        for leaf in batch.leaves():
            leaf.is_urgent = True
        self._driver.poke()

    @property
    def undelivered_count(self) -> int:
        """The number of records that were taken and are neither acknowledged nor failed yet."""
        return self._core.undelivered_count

    async def partitions_for(self, topic: str) -> int:
        """The number of partitions of a topic. Errors as of send()."""
        return (await self._topic(topic)).partition_count

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class _AtExit:
    """A producer whose loop is gone: nothing can be sent any more, only counted."""

    def __init__(self, core: ProducerCore) -> None:
        self._core = core

    @property
    def undelivered_count(self) -> int:
        """Records that are neither acknowledged nor failed."""
        return self._core.undelivered_count

    def close(self, timeout_s: float | None = None) -> None:
        """Raise where records are left."""
        if count := self.undelivered_count:
            raise UndeliveredError(f"{count} records were left", undelivered_count=count)
